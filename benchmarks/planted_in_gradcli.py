"""How well the tests protect gradcli: mistakes are planted in its own code, and the tests that run that code are run.

    python benchmarks/planted_in_gradcli.py [--count 60] [--seed 0] [--jobs 2] [--tests default,rest] [--only 3,17] [--show]

The kinds of mistakes, of which as many are drawn from each: a wrong sign, a bound halved, a comparison turned, a finding lost,
an option ignored. All are planted at once in one copy of the project, each switched off; a first run of the tests notes which
test reaches which. Then each is switched on alone, for the tests that reach it, up to the first failure. Tests that fail with
all mistakes switched off (they read the source) count for nothing. What the default tests miss is tried with the rest: those
marked `slow`, `tests/derivation`, and `tests/frameworks` for what is installed.
"""

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TURNED = {
    ast.Lt: ">", ast.Gt: "<", ast.LtE: ">=", ast.GtE: "<=", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not", ast.IsNot: "is",
    ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
BOUND = re.compile(r"bound|error|radius|radii|room|allowed|limit|tolerance|rounding")
OPTION_HOLDERS = {"options", "request", "settings", "studies", "given", "asked"}  # names of what holds options
NOTICED = (
    1,
    2,
    3,
    4,
)  # statuses of pytest: a test failed, or gradcli could not be imported by a test, the plugin or conftest.py
HANG = 400  # seconds, after which a run counts as a failure
MEMORY = 8 << 30  # bytes that the data of one process may take
TESTS = {
    "default": ["-m", "not slow"],
    "rest": [
        "-m",
        "slow or not slow",
        *(f"--ignore=tests/{name}" for name in ("browser", "notebooks", "packages")),
        "tests",
    ],
}

SWITCH = '''
import os

_ON, _REACHED = int(os.environ.get("PLANTED_ON", -1)), os.environ.get("PLANTED_REACHED")
_known = set()


def is_planted(number):
    """Whether mistake `number` is switched on; which test asks is noted where PLANTED_REACHED names a file."""
    if _REACHED is not None and (key := (number, os.environ.get("PLANTED_TEST", ""))) not in _known:
        _known.add(key)
        with open(_REACHED, "a") as file:
            file.write(f"{number} {key[1]}\\n")
    return number == _ON
'''

PLUGIN = f"""
import json, os, resource
from pathlib import Path

resource.setrlimit(resource.RLIMIT_DATA, ({MEMORY}, {MEMORY}))


def pytest_runtest_logstart(nodeid):
    os.environ["PLANTED_TEST"] = nodeid


def pytest_collection_modifyitems(config, items):
    if os.environ.get("PLANTED_SUITE") == "rest":
        from tests.conftest import ALONE
        items[:] = [item for item in items if item.get_closest_marker("slow") or ALONE & {{*item.path.parts}}]
    if "PLANTED_TESTS" in os.environ:
        place = {{name: k for k, name in enumerate(json.loads(Path(os.environ["PLANTED_TESTS"]).read_text()))}}
        items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])


def pytest_runtest_logreport(report):
    if report.failed and "PLANTED_FAILED" in os.environ and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(os.environ["PLANTED_FAILED"], "a") as file:
            file.write(report.nodeid + "\\n")
"""


@dataclass(frozen=True)
class Mistake:
    """A mistake in a file: where the text of one node begins and ends, in bytes, and what stands there instead."""

    kind: str
    file: str
    line: int
    start: int
    end: int
    instead: str

    def switched(self, number: int, text: str) -> str:
        """Return the text of the node with the mistake in it, for when it is switched on."""
        if self.kind == "finding":
            return f"if not _is_planted({number}): {text}"
        return f"({self.instead} if _is_planted({number}) else ({text}))"


def mistakes_in(file: str, source: str) -> Iterator[Mistake]:
    """Yield the mistakes that can be planted in a file."""
    tree, data = ast.parse(source), source.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def text(node: ast.AST) -> str:
        start, end = (starts[line - 1] + column for line, column in _ends(node))
        return data[start:end].decode()

    def planted(kind: str, node: ast.AST, instead: str) -> Mistake:
        return Mistake(kind, file, node.lineno, *(starts[line - 1] + column for line, column in _ends(node)), instead)

    for node in ast.walk(tree):
        match node:
            case ast.BinOp(left, ast.Add() | ast.Sub() as operator, right) if not _is_text(node):
                sign = "-" if isinstance(operator, ast.Add) else "+"
                yield planted("sign", node, f"({text(left)}) {sign} ({text(right)})")
            case ast.UnaryOp(ast.USub(), operand) if not isinstance(operand, ast.Constant):
                yield planted("sign", node, f"(+({text(operand)}))")
            case ast.Compare(left, [operator], [right]) if type(operator) in TURNED:
                yield planted("comparison", node, f"({text(left)}) {TURNED[type(operator)]} ({text(right)})")
            case ast.Assign([ast.Name(name)], ast.BinOp() as value) if BOUND.search(name) and not _is_text(value):
                yield planted("bound", value, f"0.5*({text(value)})")
            case ast.FunctionDef(name=name, body=[*_, ast.Return(ast.BinOp() as value)]) if BOUND.search(
                name
            ) and not _is_text(value):
                yield planted("bound", value, f"0.5*({text(value)})")
            case (
                ast.Expr(ast.Call(ast.Attribute(attr="inconclusive")))
                | ast.Expr(ast.Call(ast.Attribute(attr="append"), [ast.Call(ast.Name("finding"))]))
                | ast.AugAssign(ast.Attribute(attr="findings"), ast.Add())
            ):
                yield planted("finding", node, "pass")
            case ast.If(test) | ast.IfExp(test) if any(
                isinstance(part, ast.Attribute) and getattr(part.value, "id", "") in OPTION_HOLDERS
                for part in ast.walk(test)
            ):
                yield planted("option", test, "False")


def _ends(node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _is_text(node: ast.BinOp) -> bool:
    """Whether a sum is of texts or lists, where a minus would raise and every test notice it."""
    parts = [part for part in ast.walk(node) if isinstance(part, ast.JoinedStr | ast.List | ast.Tuple | ast.Constant)]
    return any(not isinstance(part, ast.Constant) or isinstance(part.value, str) for part in parts)


def draw(count: int, seed: int) -> list[Mistake]:
    """Return so many mistakes, as many of each kind as there are, from all files of gradcli, none inside of another."""
    by_kind: dict[str, list[Mistake]] = {}
    sources = {
        path.relative_to(ROOT).as_posix(): path.read_bytes() for path in sorted((ROOT / "gradcli").rglob("*.py"))
    }
    for file, source in sources.items():
        for one in mistakes_in(file, source.decode()):
            by_kind.setdefault(one.kind, []).append(one)
    chance = random.Random(seed)
    drawn: list[Mistake] = []
    for kind in sorted(by_kind):
        shuffled = iter(chance.sample(by_kind[kind], len(by_kind[kind])))
        for _ in range(count // len(by_kind)):
            drawn.append(next(one for one in shuffled if _fits(one, sources[one.file], drawn)))
    return drawn


def _fits(mistake: Mistake, source: bytes, others: list[Mistake]) -> bool:
    """Whether a mistake is outside of all others, and Python can read the source with it."""
    if any(one.file == mistake.file and one.start < mistake.end and mistake.start < one.end for one in others):
        return False
    try:
        ast.parse(_with(source, {0: mistake}))
    except SyntaxError:  # before Python 3.12 the places inside of an f-string are not exact
        return False
    return True


def _with(source: bytes, mistakes: dict[int, Mistake]) -> bytes:
    """Return a source with mistakes in it, by their numbers, each with its switch."""
    for number, one in sorted(mistakes.items(), key=lambda item: -item[1].start):
        text = one.switched(number, source[one.start : one.end].decode())
        source = source[: one.start] + text.encode() + source[one.end :]
    return source


@dataclass
class Planted:
    """A copy of the project with all mistakes in it, and which tests reach which."""

    folder: Path
    mistakes: list[Mistake]
    failing: set[str] = field(default_factory=set)  # with all mistakes switched off
    reached: dict[int, dict[str, list[str]]] = field(default_factory=dict)  # by mistake: "default" or "rest": tests

    def __post_init__(self) -> None:
        left_out = shutil.ignore_patterns(".git", ".venv*", "build", "__pycache__", ".*_cache", ".hypothesis")
        shutil.copytree(ROOT, self.folder / "project", ignore=left_out)
        self.project = self.folder / "project"
        for file in {one.file for one in self.mistakes}:
            path = self.project / file
            of_file = {number: one for number, one in enumerate(self.mistakes) if one.file == file}
            path.write_bytes(_with(path.read_bytes(), of_file))
        # In gradcli's own folder: elsewhere it would be a function of the programs that are checked.
        (self.project / "gradcli" / "planted_switch.py").write_text(SWITCH)
        (self.project / "planted_plugin.py").write_text(PLUGIN)
        package = self.project / "gradcli" / "__init__.py"
        package.write_text(
            f"import builtins\nfrom gradcli import planted_switch\nbuiltins._is_planted = planted_switch.is_planted\n{package.read_text()}"
        )

    def run_tests(self, words: list[str], **environ: str) -> int:
        """Run pytest in the copy, and return its status."""
        paths = os.pathsep.join([str(self.project), str(self.project / "pytest-gradcli")])
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "planted_plugin", *words]
        with tempfile.TemporaryDirectory() as folder:
            set_up = os.environ | {"PYTHONPATH": paths, "TMPDIR": folder} | environ
            try:
                return subprocess.run(
                    command, cwd=self.project, env=set_up, capture_output=True, timeout=HANG if "-x" in words else None
                ).returncode
            except subprocess.TimeoutExpired:
                return 1

    def note_tests(self, which: str) -> None:
        """Run tests with all mistakes switched off, and note which reaches which."""
        reached, failed = self.folder / f"{which}-reached", self.folder / f"{which}-failed"
        reached.touch()
        failed.touch()
        self.run_tests(TESTS[which], PLANTED_SUITE=which, PLANTED_REACHED=str(reached), PLANTED_FAILED=str(failed))
        self.failing |= {*failed.read_text().splitlines()}
        for line in sorted({*reached.read_text().splitlines()}):
            number, test = line.split(" ", 1)
            self.reached.setdefault(int(number), {}).setdefault(which, []).append(test)

    def is_noticed(self, number: int, which: str) -> bool:
        """Switch a mistake on, and return whether a test that reaches it fails; those of its own package run first.

        A test that fails alone with all mistakes switched off counts for nothing.
        """
        failed = self.folder / f"{which}-{number}-failed"
        while tests := {*self.reached.get(number, {}).get(which, [])} - self.failing - {""}:
            failed.write_text("")
            status = self.run_chosen(number, tests, PLANTED_ON=str(number), PLANTED_FAILED=str(failed))
            first = failed.read_text().splitlines()[:1]
            if status not in NOTICED or not first or self.run_chosen(number, {*first}) == 0:
                return status in NOTICED
            self.failing |= {*first}
        return False

    def run_chosen(self, number: int, tests: set[str], **environ: str) -> int:
        """Run tests by their names up to the first failure, those of a mistake's package first, and return pytest's status."""
        package = self.mistakes[number].file.split("/")[1].removesuffix(".py")
        chosen = self.folder / f"chosen-{number}.json"
        chosen.write_text(json.dumps(sorted(tests, key=lambda test: (not test.startswith(f"tests/{package}/"), test))))
        files = sorted({test.split("::")[0] for test in tests})
        words = ["-x", "-n", "0", "-m", "slow or not slow", *files]
        return self.run_tests(words, PLANTED_TESTS=str(chosen), **environ)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tests", default="default,rest", help="which tests: default, rest, or both")
    parser.add_argument("--only", help="the numbers of the mistakes to try, with commas; all if not given")
    parser.add_argument("--show", action="store_true", help="print the mistakes, and run nothing")
    options = parser.parse_args()
    mistakes = draw(options.count, options.seed)
    numbers = map(int, options.only.split(",")) if options.only else range(len(mistakes))
    noticed = dict.fromkeys(numbers, "" if options.show else "none")
    suites = [] if options.show else options.tests.split(",")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        planted = Planted(Path(folder), mistakes)
        for which in suites:
            planted.note_tests(which)
            print(f"{which}: {len(planted.failing)} tests fail with all mistakes switched off", flush=True)
            open_ones = [number for number, by in noticed.items() if by == "none"]
            answers = pool.map(planted.is_noticed, open_ones, [which] * len(open_ones))
            for number, is_noticed in zip(open_ones, answers, strict=True):
                noticed[number] = which if is_noticed else "none"
                tests = len(planted.reached.get(number, {}).get(which, []))
                print(f"  {which} {number}: {is_noticed} ({tests} tests)", flush=True)
    for number, by in noticed.items():
        mistake = mistakes[number]
        print(f"{by:8} {number:3} {mistake.kind:11} {mistake.file}:{mistake.line}: {mistake.instead}")
    print(", ".join(f"{by}: {[*noticed.values()].count(by)}" for by in sorted({*noticed.values()})))


if __name__ == "__main__":
    main()
