"""docs/reference/python.md has every public name, and the examples in their docstrings hold."""

import doctest
import inspect
import re

import gradcli
from tests.documents.blocks import read
from tests.rows import for_rows

NAMES = sorted(set(gradcli.__all__) - {"__version__"})


def test_every_public_name_is_on_the_page() -> None:
    listed = re.findall(r"^\.\. auto\w+:: gradcli\.(\w+)$", read("docs/reference/python.md"), re.MULTILINE)
    assert sorted(listed) == NAMES


@for_rows("name", NAMES)
def test_the_example_of_a_docstring_holds(name: str) -> None:
    thing = getattr(gradcli, name)
    test = doctest.DocTestParser().get_doctest(
        inspect.getdoc(thing) or "", vars(gradcli) | {name: thing}, name, None, 0
    )
    names = {each: getattr(gradcli, each) for each in NAMES}
    test.globs.update(names)
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0
