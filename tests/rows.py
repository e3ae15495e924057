"""A table of a test as one item: every row is tried, and each that fails is reported."""

import inspect
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

_LONGEST = 100  # characters of a row's name


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


def for_rows(arguments: str | Sequence[str], table: Iterable[Any], ids: Any = None) -> Callable[[Callable], Callable]:
    """Run a test for every row of a table, as `pytest.mark.parametrize` does, but as one item with a subtest a row.

    For tables that are quick as a whole. Several are combined. Fixtures are shared by the rows, so the test may not leave
    anything behind in them.
    """
    names = [name.strip() for name in arguments.split(",")] if isinstance(arguments, str) else list(arguments)
    given = [row.values if hasattr(row, "marks") else row if len(names) > 1 else (row,) for row in table]

    def decorate(test: Callable) -> Callable:
        inner, tables = getattr(test, "rows", (test, []))
        return _run_rows(inner, [Table(names, given, ids), *tables])

    return decorate


def _run_rows(test: Callable, tables: list[Table]) -> Callable:
    signature = inspect.signature(test)
    given = {name for table in tables for name in table.arguments}
    fixtures = [parameter for name, parameter in signature.parameters.items() if name not in given]

    def run(subtests: pytest.Subtests, **fixtures: Any) -> None:
        if "subtests" in signature.parameters:
            fixtures["subtests"] = subtests
        for numbers in itertools.product(*(range(len(table.rows)) for table in tables)):
            chosen = list(zip(tables, numbers, strict=True))
            row = {name: x for table, k in chosen for name, x in zip(table.arguments, table.rows[k], strict=True)}
            with subtests.test("-".join(table.name(k) for table, k in chosen)):
                test(**row, **fixtures)

    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    run.pytestmark = getattr(test, "pytestmark", [])  # type: ignore[attr-defined]
    run.rows = (test, tables)  # type: ignore[attr-defined]
    if "subtests" not in signature.parameters:
        fixtures.append(inspect.Parameter("subtests", inspect.Parameter.POSITIONAL_OR_KEYWORD))
    run.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
    return run
