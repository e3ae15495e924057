"""Names of targets as verdict lines have them."""

from gradcli.report.blocks import cut_between_words, shorten_text
from tests.rows import for_rows


@for_rows(
    ("text", "width", "shown"),
    [
        ("sin(x*y)", 40, "sin(x*y)"),
        ("sin(x)\n  + 1", 40, "sin(x) + 1"),
        ("sin(x) + cos(x)", 10, "sin(x) + …"),
        ("examples/losses.py:focal", 40, "examples/losses.py:focal"),
        ("/home/me/project/examples/losses.py:focal", 30, "…/examples/losses.py:focal"),
        ("/home/me/project/examples/losses.py:focal", 20, "…/losses.py:focal"),
        ("losses.py:a_name_that_is_longer_than_the_room", 20, "…onger_than_the_room"),
    ],
)
def test_the_part_that_names_it_is_kept(text: str, width: int, shown: str) -> None:
    assert shorten_text(text, width) == shown and len(shown) <= width


def test_a_message_keeps_its_head_and_ends_with_a_word() -> None:
    said = "losses.py:boom raised ValueError: x must be sorted, see https://example.org/a_long_path"
    assert cut_between_words(said, 47) == "losses.py:boom raised ValueError: x must be…"
    assert cut_between_words(said, 200) == said
    assert cut_between_words("a_single_word_that_is_long", 10) == "a_single_…"
