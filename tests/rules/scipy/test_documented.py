"""The page on scipy names every function that has a stand-in, and no other."""

import importlib
import re
from pathlib import Path

from gradcli.rules import scipy as of_scipy
from tests.rows import for_rows

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "scipy.md"
PLACES = [
    *sorted({f"gradcli.rules.scipy.{ours}" for ours in of_scipy.MODULES.values() if ours}),
    "gradcli.targets.solutions",
]


@for_rows("place", PLACES)
def test_every_stand_in_is_on_the_page(place: str) -> None:
    named = set(re.findall(r"`(?:scipy\.\w+\.)?(\w+)", PAGE.read_text(encoding="utf-8")))
    assert set().union(*importlib.import_module(place).FUNCTIONS.values()) - named == set()


def test_every_method_that_is_replaced_exists_and_is_put_back() -> None:
    """A method that a version of scipy lacks would be left out silently."""
    importlib.import_module("scipy.stats")
    for module in ("sparse", "interpolate"):
        importlib.import_module(f"scipy.{module}")
    found = list(of_scipy.methods(of_scipy.imported_modules()))
    assert len(found) > 40
    assert all(name in vars(owner) for owner, name, _ in found)
