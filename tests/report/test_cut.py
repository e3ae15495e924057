"""Names of targets as verdict lines have them."""

from gradcli.report.blocks import cut
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
    assert cut(text, width) == shown and len(shown) <= width
