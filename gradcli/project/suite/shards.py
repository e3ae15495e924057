"""Put the documents of the shards of a suite together again."""

import dataclasses
import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from gradcli.errors import BadOption
from gradcli.report.common import ABSENT
from gradcli.report.decode import NotADocument, decode_document
from gradcli.report.point_report import Detects
from gradcli.report.suite import Shard, SuiteReport, count_verdicts, exit_status_of_checks
from gradcli.request.option_values import MOST_SHARDS
from gradcli.words import Exit

_MOST = 2**31  # bytes of a document
_NAMED = 10  # missing shards
_ALIKE = (  # what all shards of one suite have in common, and how it is called
    ("declared", "checks"), ("digest", "declarations of checks"), ("selected", "selections"),
    ("seed", "seeds"), ("profile", "profile"), ("config", "file"), ("environment", "versions"),
)  # fmt: skip


def read_shard_report(path: Path) -> SuiteReport:
    """Return the document in a file. Raises BadOption if it is none of a suite."""
    try:
        if path.stat().st_size > _MOST:
            raise BadOption(f"{path} is too large", do="give documents that gradcli wrote")
        found = decode_document(SuiteReport, json.loads(path.read_text(encoding="utf-8")))
        whole = found.schema == "gradcli.suite/1"
        for row in found.checks:  # whether its document can be shown
            if row.error is None and row.report is None:
                decode_document(Detects, row.document["detects"])
    except OSError as error:
        raise BadOption(f"{path} cannot be read: {error.strerror}", do="give documents of gradcli check") from None
    except (ValueError, NotADocument, RecursionError, KeyError, TypeError, AttributeError):
        whole = False
    if not whole:
        raise BadOption(f"{path} is no document of several checks", do="write one: gradcli check --out FILE.json")
    return found


def merge_shards(documents: Sequence[tuple[Path, SuiteReport]]) -> SuiteReport:
    """Return the report of all checks in declared order, with their counts and their status.

    Checks that were selected and that no shard ran are not reached, which is status 2.

    Raises  BadOption for documents of different suites, seeds or versions, for a shard that is missing or given twice, and
            for a check that two shards have.
    """
    (first, whole), *others = documents
    for path, found in others:
        for name, called in _ALIKE:
            if getattr(found, name) != getattr(whole, name):
                says = f"{path.name} and {first.name} are not of one suite: their {called} differ"
                one_run = "merge the documents of one run"
                raise BadOption(says, do=f"{one_run}: give all shards one --seed" if name == "seed" else one_run)
    _refuse_incomplete_shards([(path, found.shard) for path, found in documents])
    rows = {}
    for path, found in documents:
        for row in found.checks:
            if row.id in rows or row.id not in whole.declared:
                says = f"the check '{row.id}' of {path.name} does not belong there"
                raise BadOption(says, do="merge the documents of one run")
            rows[row.id] = row
    checks = tuple(rows[name] for name in whole.declared if name in rows)
    left = tuple(name for name in whole.selected or whole.declared if name not in rows)
    stale = _unique_texts(found.stale or () for _, found in documents)
    return dataclasses.replace(
        whole,
        shard=None,
        checks=checks,
        counts=count_verdicts(checks),
        exit_status=int(exit_status_of_checks(checks, Exit.UNUSABLE if left or stale else Exit.CONFIRMED)),
        seconds=sum(found.seconds for _, found in documents),
        not_reached=left or ABSENT,
        stale=stale or ABSENT,
        renewal=next((found.renewal for _, found in documents if found.renewal), ABSENT),
        no_point=_unique_texts(found.no_point or () for _, found in documents) or ABSENT,
    )


def _unique_texts(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(itertools.chain.from_iterable(lists)))


def _refuse_incomplete_shards(shards: Sequence[tuple[Path, Shard | None]]) -> None:
    """Raise BadOption unless every shard is there once."""
    parts = [(path, shard or Shard(1, 1)) for path, shard in shards]
    count = parts[0][1].of
    if not all(1 <= shard.index <= shard.of <= MOST_SHARDS for _, shard in parts):
        raise BadOption("a document has a shard that cannot be", do="merge the documents of one run")
    seen: dict[int, Path] = {}
    for path, shard in parts:
        if shard.of != count:
            says = f"{path.name} is one of {shard.of} shards, not of {count}"
            raise BadOption(says, do="merge the documents of one run")
        if shard.index in seen:
            says = f"{path.name} and {seen[shard.index].name} are the same shard, {shard.index}/{count}"
            raise BadOption(says, do="give each shard once")
        seen[shard.index] = path
    missing = [f"{k}/{count}" for k in range(1, count + 1) if k not in seen]
    if missing:
        others = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
        raise BadOption(f"missing: shard {', '.join(missing[:_NAMED])}{others}", do="give the documents of all shards")
