"""Documents and screens of the command line stay as they were: `tests/goldens/commands.txt` lists the commands.

Of each kind of document (--json) one is kept whole, of the others a line in `outcomes.txt`: the status, the verdicts, what was found;
their fields are held by the schema, and their numbers by their own bounds. A document is compared entry by entry: gradients within the bounds that both documents state, other numbers to
`SAME` of their size, errors and bounds to a factor of `SIZE`, since other processors round otherwise. Screens are compared
word by word, their numbers likewise. Times, paths, versions and the dots of charts are left out.

`python -m tests.test_goldens [NAME ...]` writes them anew, those named or all; the difference is then to be reviewed.
"""

import functools
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.conftest import gradcli
from tests.rows import for_rows

FOLDER = Path(__file__).parent / "goldens"
SAME = 1e-9  # relative: what other kernels of numpy and BLAS may change
SIZE = 3.0  # the factor between two errors, or two bounds, of one size
NOISE = 1e-13  # an error, relative or of a result of size 1, below which only rounding is seen
TINY = 1e-9  # a number of a text that is less is an error or a bound
ERRORS = {  # keys below which numbers are errors or bounds, of which only the size is known
    "bound", "detects", "relative", "relative_error", "max_relative_error", "predicted_error", "value_error", "error_at_h",
    "mean_differs", "sum_differs", "known_to", "remainder", "smallest_in_every", "smallest_in_any", "ulps_worst",
    "ulps_median", "scaled_ulps_worst", "scaled_ulps_median",
}  # fmt: skip
STEPS = {"best_h", "predicted_h", "rounding", "from", "to"}  # which the errors choose: right to a factor
OF_PYTHON = 1024.0  # bytes that one version of Python takes for the same run, and another does not
MEASURED = {  # what an error makes, and by how much it may differ: absolute, relative
    "digits": (0.8, 0.0), "right_digits": (0.8, 0.0), "order": (0.05, 0.0), "rounding_slope": (0.1, 0.0),
    "evaluations": (0.0, 0.25), "sweeps": (0.0, 0.25), "peak_bytes": (OF_PYTHON, 0.25), "f_peak_bytes": (OF_PYTHON, 0.25), "held_bytes": (0.0, 0.25),
}  # fmt: skip
TIMES = {"seconds", "f_seconds", "relative_time"}
LEFT_OUT = TIMES | {"environment"}
WHOLE = {
    "power", "claim-factor", "sweep", "error-name", "derive-refused", "ops-json", "compare", "trace", "grad", "ndjson",
    "explain-json",
}  # fmt: skip
OUTCOME = {
    "verdict",
    "reference",
    "kind",
    "severity",
    "status",
    "formula",
    "replacement",
    "what",
}  # keys of what an outcome says
VALUES = ("gradient", "jacobian")  # of which `bound` beside them is the bound

_TIME = re.compile(
    r" *\b\d+(?:\.\d+)? ?(?:ns|us|µs|ms|s)\b|(?<=One reverse sweep costs ).*?(?=\n\n|\Z)|(?<=time=)\"[\d.]+\"",
    re.DOTALL,
)
_MEMORY = re.compile(r" *\b\d+(?:\.\d+)? (?:B|KiB|MiB)\b")  # measured; documents have it, too
_CHART = re.compile(r"^.*[\u2800-\u28ff].*\n", re.MULTILINE)  # dots whose place the last digits decide
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)")


@dataclass(frozen=True)
class Command:
    """A command of the list."""

    name: str
    argv: tuple[str, ...]
    environ: Mapping[str, str]

    @property
    def document(self) -> bool:
        return "--json" in self.argv or "ndjson" in self.argv

    @property
    def file(self) -> Path | None:
        """The file of the golden; None for a document of which a line is kept."""
        if self.document:
            return FOLDER / "documents" / f"{self.name}.json" if self.name in WHOLE else None
        return FOLDER / "screens" / f"{self.name}.txt"


def commands() -> list[Command]:
    """Read the list."""
    found = []
    for line in (FOLDER / "commands.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, *words = shlex.split(line)
            environ = dict([words.pop(0).split("=")]) if words[0].startswith("COLUMNS=") else {}
            found.append(Command(name, tuple(words), environ))
    return found


COMMANDS = commands()


def document_of(command: Command) -> dict[str, Any]:
    """Run a command in the folder of its targets, and return its status and its document."""
    ran = gradcli(*command.argv, environ=dict(command.environ))
    assert ran.stderr == "" or ran.exit_status == 2
    found = ran.json if "--json" in command.argv else [json.loads(line) for line in ran.stdout.splitlines()]
    return {"exit status": ran.exit_status, "document": found}


def outcome(document: dict[str, Any]) -> str:
    """Return the status of a document, and what it says of verdicts, findings, mistakes and modes, on a line."""
    said = dict.fromkeys(placed(" ".join(text.split())) for text in _outcomes(document["document"]))
    return " | ".join([str(document["exit status"]), *said])


def _outcomes(x: Any) -> Iterator[str]:
    for key, value in x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ():
        if key in OUTCOME and isinstance(value, str) and value not in ("ok", "agree"):
            yield value
        yield from _outcomes(value)


def kept_outcomes() -> dict[str, str]:
    """Return the lines of `outcomes.txt` by the names of their commands."""
    lines = (FOLDER / "outcomes.txt").read_text(encoding="utf-8").splitlines()
    return {name: line for name, _, line in (line.partition(": ") for line in lines)}


def shown(command: Command) -> str:
    """Run a command in the folder of its targets and return its golden as it is now."""
    if command.document:
        return placed(json.dumps(without_times(document_of(command)), indent=1, ensure_ascii=False)) + "\n"
    ran = gradcli(*command.argv, environ=dict(command.environ))
    error = f"[standard error]\n{ran.stderr}" if ran.stderr else ""
    return placed(
        _CHART.sub(
            "", _MEMORY.sub(" <memory>", _TIME.sub(" <time>", f"{ran.stdout}{error}[status {ran.exit_status}]\n"))
        )
    )


def placed(text: str) -> str:
    """Return a text without the path of this checkout."""
    return text.replace(str(FOLDER), "<goldens>")


def without_times(x: Any) -> Any:
    """Return a document without what a run of its own shows: times, versions."""
    if isinstance(x, dict):
        return {key: without_times(value) for key, value in x.items() if key not in LEFT_OUT}
    return [without_times(value) for value in x] if isinstance(x, list) else x


def differences(old: Any, new: Any, path: tuple[str, ...] = (), room: Any = None) -> Iterator[str]:
    """Yield where two documents differ; `room` is how far the numbers of a gradient may be apart, shaped like it."""
    if isinstance(old, dict) and isinstance(new, dict):
        if list(old) != list(new):
            yield f"{'.'.join(path)}: keys {list(old)}, now {list(new)}"
            return
        for key in old:
            inner = room[key] if isinstance(room, dict) and key in room else room
            if key in VALUES and "bound" in old:
                inner = summed(old["bound"], new["bound"])
            yield from differences(old[key], new[key], (*path, key), inner)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for k, (a, b) in enumerate(zip(old, new, strict=True)):
            inner = room[k] if isinstance(room, list) and len(room) == len(old) else room
            yield from differences(a, b, (*path, str(k)), inner)
    elif not same(old, new, path, room if isinstance(room, float) else 0.0):
        yield f"{'.'.join(path)}: {old!r}, now {new!r}"


def summed(a: Any, b: Any) -> Any:
    """Return the sum of two bounds of one shape; nothing of those that differ in shape."""
    if isinstance(a, dict) and isinstance(b, dict):
        return {key: summed(a[key], b[key]) for key in a.keys() & b.keys()}
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [summed(x, y) for x, y in zip(a, b, strict=True)]
    return float(a + b) if is_number(a) and is_number(b) else 0.0


def is_number(x: Any) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool)


def same(old: Any, new: Any, path: tuple[str, ...], room: float) -> bool:
    """Whether two leaves of a document agree."""
    if isinstance(old, str) and isinstance(new, str):
        return path[-2:] == ("detects", "at") or not list(words_apart(old, new))
    if not (is_number(old) and is_number(new)):
        return type(old) is type(new) and old == new
    if ERRORS & {*path}:
        return one_size(float(old), float(new))
    if STEPS & {*path}:
        return max(old, new) <= SIZE * min(old, new)
    absolute, relative = next((MEASURED[key] for key in path if key in MEASURED), (0.0, 0.0))
    if isinstance(old, int) and isinstance(new, int) and not relative:
        return old == new
    return abs(old - new) <= max(room, absolute, max(SAME, relative) * max(abs(old), abs(new)))


def one_size(a: float, b: float) -> bool:
    """Whether two errors are of one size, or both no more than rounding."""
    small, large = sorted((abs(a), abs(b)))
    return large <= SIZE * small or large <= NOISE


def words_apart(old: str, new: str) -> Iterator[str]:
    """Yield where two texts differ: in their words, or in a number that is not the same to the digits shown."""
    if _NUMBER.sub("0", old) != _NUMBER.sub("0", new):
        for a, b in zip(old.splitlines(), new.splitlines(), strict=False):
            if _NUMBER.sub("0", a) != _NUMBER.sub("0", b):
                yield f"- {a}\n+ {b}"
        if old.count("\n") != new.count("\n"):
            yield f"{old.count(chr(10))} lines, now {new.count(chr(10))}"
        return
    for a, b in zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True):
        if a != b and not (alike(a, b)):
            yield f"{a}, now {b}"


def alike(a: str, b: str) -> bool:
    """Whether two numbers of a text agree: errors, which have an exponent and two digits at most, to a factor."""
    if a.lstrip("-+").isdecimal() or b.lstrip("-+").isdecimal():
        return False
    if "e" in a and (len(a.split("e")[0].replace(".", "").lstrip("-+")) <= 2 or abs(float(a)) < TINY):
        return one_size(float(a), float(b))
    last = 10.0 ** -len(a.split("e")[0].partition(".")[2]) * (10.0 ** int(a.split("e")[1]) if "e" in a else 1.0)
    return abs(float(a) - float(b)) <= 1.01 * last + SAME * abs(float(a))


def out_of_bounds(x: Any) -> Iterator[str]:
    """Yield the modes whose values differ from those of the certified one by more than both bounds."""
    if isinstance(x, dict) and isinstance(x.get("modes"), dict) and "bound" in x["modes"].get("certified", ()):
        right = x["modes"]["certified"]
        for name, mode in x["modes"].items():
            for key in VALUES:
                if mode.get("verdict", "agree") == "agree" and name != "claim" and key in mode and key in right:
                    room = summed(mode["bound"], right["bound"])
                    yield from (f"{name}: {apart}" for apart in differences(right[key], mode[key], room=room))
    for value in x.values() if isinstance(x, dict) else x if isinstance(x, list) else ():
        yield from out_of_bounds(value)


@functools.cache
def validator_of(name: str) -> Draft202012Validator:
    """Return what holds a document of `gradcli schema NAME`."""
    return Draft202012Validator(gradcli("schema", name).json)


SLOW = {  # which look long for a repair
    "claim-transposed", "claim-hess-wrong", "claim-hess-diagonal", "python-wrong", "python-pair-wrong", "python-vjp",
    "screen-python", "screen-hessian",
}  # fmt: skip
LINES = [command for command in COMMANDS if command.file is None]


def cases(listed: list[Command]) -> list[Any]:
    """Return the parameters of a test of these commands."""
    return [pytest.param(c, id=c.name, marks=[pytest.mark.slow] if c.name in SLOW else []) for c in listed]


@pytest.mark.parametrize("command", cases(LINES))
@pytest.mark.repairs
def test_the_outcome_is_as_it_was(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    document = document_of(command)
    apart = words_apart(kept_outcomes()[command.name], outcome(document))
    assert not list(apart), "if it should change: python -m tests.test_goldens, and review the difference"
    assert list(out_of_bounds(document)) == []
    name = document["document"]["schema"].removeprefix("gradcli.").partition("/")[0]
    assert [error.message for error in validator_of(name).iter_errors(document["document"])] == []


@pytest.mark.parametrize("command", cases([c for c in COMMANDS if c.file is not None]))
@pytest.mark.repairs
def test_output_is_as_it_was(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    old, new = command.file.read_text(encoding="utf-8"), shown(command)
    apart = differences(json.loads(old), json.loads(new)) if command.document else words_apart(old, new)
    assert not list(apart), "if it should change: python -m tests.test_goldens, and review the difference"


def test_every_golden_has_its_command_and_no_other() -> None:
    files = {path for kind in ("documents", "screens") for path in (FOLDER / kind).iterdir()}
    assert len(COMMANDS) == len({command.name for command in COMMANDS}) >= 200
    assert files == {command.file for command in COMMANDS} - {None}
    assert list(kept_outcomes()) == [command.name for command in LINES]


@for_rows(
    ("old", "new", "differ"),
    [
        ({"gradient": {"x": 1.0}, "bound": {"x": 1e-6}}, {"gradient": {"x": 1.000001}, "bound": {"x": 1e-6}}, False),
        ({"gradient": {"x": 1.0}, "bound": {"x": 1e-6}}, {"gradient": {"x": 1.00001}, "bound": {"x": 1e-6}}, True),
        ({"gradient": [[1.0]], "bound": [[1e-6]]}, {"gradient": [[1.00001]], "bound": [[1e-6]]}, True),
        ({"value": 1.0}, {"value": 1.0 + 1e-12}, False),
        ({"value": 1.0}, {"value": 1.0 + 1e-6}, True),
        ({"bound": {"x": 1e-6}}, {"bound": {"x": 2e-6}}, False),
        ({"bound": {"x": 1e-6}}, {"bound": {"x": 2e-5}}, True),
        ({"evaluations": 12}, {"evaluations": 13}, False),
        ({"evaluations": 12}, {"evaluations": 24}, True),
        ({"line": 12}, {"line": 13}, True),
        ({"right_digits": {"worst": 15.6}}, {"right_digits": {"worst": 15.8}}, False),
        ({"right_digits": {"worst": 15.6}}, {"right_digits": {"worst": 12.6}}, True),
        ({"detects": {"at": "x[0]"}}, {"detects": {"at": "x[1]"}}, False),
        ({"best_h": 1e-5}, {"best_h": 2e-5}, False),
        ({"best_h": 1e-5}, {"best_h": 1e-4}, True),
        ({"finite-difference": {"value": 1.0}}, {"finite-difference": {"value": 1.5}}, True),
        ({"verdict": "pass"}, {"verdict": "fail"}, True),
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": [1]}, {"a": [1, 1]}, True),
        ({"a": True}, {"a": 1}, True),
        ({"says": "better than 1e-12"}, {"says": "better than 2e-12"}, False),
        ({"says": "better than 1e-12"}, {"says": "better than 1e-3"}, True),
    ],
)
def test_what_differs_is_seen(old: Any, new: Any, differ: bool) -> None:
    assert bool(list(differences(old, new))) is differ


@for_rows(
    ("old", "new", "differ"),
    [
        ("x  0.50186", "x  0.50187", False),
        ("x  0.50186", "x  0.50286", True),
        ("7 calls", "8 calls", True),
        ("PASS", "FAIL", True),
        ("one\n", "one\ntwo\n", True),
        ("error 2.1e-9", "error 1.9e-9", False),
    ],
)
def test_what_differs_on_a_screen_is_seen(old: str, new: str, differ: bool) -> None:
    assert bool(list(words_apart(old, new))) is differ


def main(names: list[str]) -> None:
    """Write the goldens of the commands named, or of all, and remove those that have no command."""
    os.chdir(FOLDER)
    for kind in ("documents", "screens"):
        (FOLDER / kind).mkdir(exist_ok=True)
    lines = kept_outcomes() if names else {}
    for command in COMMANDS:
        if names and command.name not in names:
            continue
        if command.file is None:
            lines[command.name] = outcome(document_of(command))
        else:
            command.file.write_text(shown(command), encoding="utf-8")
    text = "".join(f"{command.name}: {lines[command.name]}\n" for command in LINES)
    (FOLDER / "outcomes.txt").write_text(text, encoding="utf-8")
    for kind in ("documents", "screens"):
        for path in (FOLDER / kind).iterdir():
            if path not in {command.file for command in COMMANDS}:
                path.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
