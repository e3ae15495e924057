"""The words in pictures: on one line, cut where there is no room, and wrapped to a width."""

from gradcli.report.forms.figure import label_on_one_line, wrap_label


def test_a_label_is_one_line_and_is_cut_where_it_is_too_long() -> None:
    assert label_on_one_line("ten\nletter\x1b", 40) == "ten letter␛"
    assert label_on_one_line("1234567890", 10) == "1234567890"
    assert label_on_one_line("12345678901", 10) == "123456789…"


def test_text_is_wrapped_to_the_width_of_a_picture() -> None:
    lines = wrap_label("a sentence that is longer than its picture is wide", inches=1.0, points=10.0).split("\n")
    assert len(lines) > 3 and max(map(len, lines)) <= 12
