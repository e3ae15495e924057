"""A table of a test as one item: every row is tried, and each that fails is reported."""

import inspect
import itertools
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_LONGEST = 100  # characters of a row's name
_OUTCOMES = (Exception, pytest.fail.Exception, pytest.skip.Exception, pytest.xfail.Exception)


@dataclass(frozen=True)
class Table:
    """The arguments that rows give, the rows, and their names: a list, a function of an argument, or None."""

    arguments: list[str]
    rows: list[tuple[Any, ...]]
    ids: Any

    def name(self, k: int) -> str:
        """Return the name of row k, by which a failure is found."""
        row = self.rows[k]
        if self.ids is not None and not callable(self.ids):
            return str(self.ids[k])
        return "-".join(str(self.ids(x) if self.ids else x) for x in row)[:_LONGEST]


def for_rows(
    arguments: str | Sequence[str], table: Iterable[Any], ids: Any = None, parts: int = 1
) -> Callable[[Callable], Callable]:
    """Run a test for every row of a table, as `pytest.mark.parametrize` does, but as one item with a subtest a row.

    Several tables are combined. A long one is divided into `parts`, each an item. Fixtures are shared by the rows, so the
    test may not leave anything behind in them.
    """
    names = [name.strip() for name in arguments.split(",")] if isinstance(arguments, str) else list(arguments)
    table = list(table)
    if any(getattr(row, "marks", ()) for row in table):
        raise ValueError("a row with a mark is an item of its own: pytest.mark.parametrize")
    given = [row.values if hasattr(row, "marks") else row if len(names) > 1 else (row,) for row in table]

    def decorate(test: Callable) -> Callable:
        inner, tables = getattr(test, "rows", (test, []))
        run = _run_rows(inner, [Table(names, given, ids), *tables], parts)
        run.pytestmark = [*getattr(test, "pytestmark", [])]  # type: ignore[attr-defined]
        return pytest.mark.parametrize("part", range(parts))(run) if parts > 1 else run

    return decorate


def _run_rows(test: Callable, tables: list[Table], parts: int) -> Callable:
    signature = inspect.signature(test)
    given = {name for table in tables for name in table.arguments}
    fixtures = [parameter for name, parameter in signature.parameters.items() if name not in given]

    def run(
        subtests: pytest.Subtests, tmp_path_factory: pytest.TempPathFactory, part: int = 0, **fixtures: Any
    ) -> None:
        shared = {"subtests": subtests, "tmp_path_factory": tmp_path_factory}
        fixtures |= {name: x for name, x in shared.items() if name in signature.parameters}
        known = {*sys.modules}
        every = itertools.product(*(range(len(table.rows)) for table in tables))
        for numbers in itertools.islice(every, part, None, parts):
            chosen = list(zip(tables, numbers, strict=True))
            row = {name: x for table, k in chosen for name, x in zip(table.arguments, table.rows[k], strict=True)}
            try:
                test(**row, **fixtures)
            except _OUTCOMES:  # a subtest for each row that passes would take longer than the row
                with subtests.test("-".join(table.name(k) for table, k in chosen)):
                    raise
            forget_modules(known, tmp_path_factory)  # the next row may write another file of the same name

    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    run.rows = (test, tables)  # type: ignore[attr-defined]
    own = [name for name in ("subtests", "tmp_path_factory") if name not in signature.parameters]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in [*own, *(["part"] if parts > 1 else [])]
    ]
    run.__signature__ = signature.replace(parameters=[*fixtures, *more])  # type: ignore[attr-defined]
    return run


def forget_modules(known: Collection[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Forget the modules that a test wrote into its temporary folder and loaded, but for those that were known before."""
    folder = str(tmp_path_factory.getbasetemp())
    for name in sys.modules.keys() - known:
        module = sys.modules[name]
        if (getattr(module, "__file__", None) or "").startswith(folder):
            del sys.modules[name]
            if cached := getattr(module, "__cached__", None):  # it is that of another text of the same length, too
                Path(cached).unlink(missing_ok=True)
