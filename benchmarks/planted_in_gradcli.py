"""How well the tests protect gradcli: mistakes are planted in its own code, and the tests that run those lines are run.

    python benchmarks/planted_in_gradcli.py --record [--slow]          which tests run which line; minutes
    python benchmarks/planted_in_gradcli.py [--count 60] [--seed 0] [--jobs 2] [--show]

The kinds of mistakes, of which as many are drawn from each: a wrong sign, a bound halved, a comparison turned, a finding lost,
an option ignored. A mistake is noticed by default if a test that is not marked `slow` fails; what these miss is tried with the
slow tests that run the line. It needs `coverage`. All work is done in a copy of the project in a temporary folder.
"""

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "build" / "lines-of-tests"
TURNED = {
    ast.Lt: ">", ast.Gt: "<", ast.LtE: ">=", ast.GtE: "<=", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not", ast.IsNot: "is",
    ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
BOUND = re.compile(r"bound|error|radius|radii|room|allowed|limit|tolerance|rounding")
ASKED = {"options", "request", "settings", "studies", "given", "asked"}  # names of what holds options
HANG = 600  # seconds, after which a run counts as a failure
MOST_TESTS = 1_500  # that are run for one mistake: those of its own package first


@dataclass(frozen=True)
class Mistake:
    """A mistake in a file: the text of one node, and what stands there instead."""

    kind: str
    file: str
    line: int
    last_line: int
    start: int  # in the bytes of the file
    end: int
    instead: str

    def planted(self, source: bytes) -> bytes:
        """Return the source with the mistake."""
        return source[: self.start] + self.instead.encode() + source[self.end :]


def mistakes_in(file: str, source: str) -> Iterator[Mistake]:
    """Yield the mistakes that can be planted in a file."""
    tree, data = ast.parse(source), source.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def at(node: ast.AST) -> tuple[int, int]:
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    def text(node: ast.AST) -> str:
        start, end = at(node)
        return data[start:end].decode()

    def made(kind: str, node: ast.AST, instead: str) -> Mistake:
        return Mistake(kind, file, node.lineno, node.end_lineno, *at(node), instead)

    for node in ast.walk(tree):
        match node:
            case ast.BinOp(left, ast.Add() | ast.Sub() as operator, right) if not _is_text(node):
                sign = "-" if isinstance(operator, ast.Add) else "+"
                yield made("sign", node, f"({text(left)}) {sign} ({text(right)})")
            case ast.UnaryOp(ast.USub(), operand) if not isinstance(operand, ast.Constant):
                yield made("sign", node, f"(+({text(operand)}))")
            case ast.Compare(left, [operator], [right]) if type(operator) in TURNED:
                yield made("comparison", node, f"({text(left)}) {TURNED[type(operator)]} ({text(right)})")
            case ast.Assign([ast.Name(name)], ast.BinOp() as value) if BOUND.search(name) and not _is_text(value):
                yield made("bound", value, f"0.5*({text(value)})")
            case ast.FunctionDef(name=name, body=[*_, ast.Return(ast.BinOp() as value)]) if BOUND.search(
                name
            ) and not _is_text(value):
                yield made("bound", value, f"0.5*({text(value)})")
            case ast.Expr(ast.Call(ast.Attribute(attr="inconclusive"))):
                yield made("finding", node, "pass")
            case ast.Expr(ast.Call(ast.Attribute(attr="append"), [ast.Call(ast.Name("finding"))])):
                yield made("finding", node, "pass")
            case ast.AugAssign(ast.Attribute(attr="findings"), ast.Add()):
                yield made("finding", node, "pass")
            case ast.If(test) | ast.IfExp(test) if any(
                isinstance(part, ast.Attribute) and getattr(part.value, "id", "") in ASKED for part in ast.walk(test)
            ):
                yield made("option", test, "False")


def _is_text(node: ast.BinOp) -> bool:
    """Whether a sum is of texts or lists, where a minus would raise and every test notice it."""
    parts = [part for part in ast.walk(node) if isinstance(part, ast.JoinedStr | ast.List | ast.Tuple | ast.Constant)]
    return any(not isinstance(part, ast.Constant) or isinstance(part.value, str) for part in parts)


def draw(count: int, seed: int) -> list[Mistake]:
    """Return so many mistakes, as many of each kind as there are, from all files of gradcli."""
    by_kind: dict[str, list[Mistake]] = {}
    for path in sorted((ROOT / "gradcli").rglob("*.py")):
        for one in mistakes_in(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")):
            by_kind.setdefault(one.kind, []).append(one)
    chance = random.Random(seed)
    return [one for kind in sorted(by_kind) for one in chance.sample(by_kind[kind], count // len(by_kind))]


def copy(folder: Path) -> Path:
    """Copy the project to a folder."""
    kept = shutil.ignore_patterns(".git", ".venv*", "build", "__pycache__", ".*_cache", ".hypothesis")
    return Path(shutil.copytree(ROOT, folder / "project", ignore=kept))


def run_tests(project: Path, words: list[str], before: list[str]) -> int:
    """Run pytest in a copy of the project, and return its status."""
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(project), str(project / "pytest-gradcli")])}
    command = [sys.executable, *before, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *words]
    with (project / "output.txt").open("w") as out:
        try:
            return subprocess.run(command, cwd=project, env=environ, stdout=out, stderr=out, timeout=HANG).returncode
        except subprocess.TimeoutExpired:
            return 1


def record(slow: bool, jobs: int) -> None:
    """Run the tests under coverage, in so many processes, and keep which test runs which line."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    files = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))
    files = [name for name in files if name.split("/")[1] not in ("frameworks", "packages", "browser")]
    random.Random(0).shuffle(files)

    def one(k: int) -> int:
        with tempfile.TemporaryDirectory() as folder:
            project = copy(Path(folder))
            (project / ".coveragerc").write_text(
                "[run]\nsource = gradcli\ndynamic_context = test_function\n"
                f"data_file = {RECORDS / ('slow' if slow else 'quick')}-{k}\n"
            )
            words = ["-m", "slow" if slow else "not slow", "-o", "addopts=", *files[k::jobs]]
            return run_tests(project, words, ["-m", "coverage", "run"])

    with ThreadPoolExecutor(jobs) as pool:
        print("statuses:", *pool.map(one, range(jobs)))


def tests_of(mistake: Mistake, which: str) -> list[str]:
    """Return the tests that run the lines of a mistake, those of its own package first; by file, where none is known."""
    found: set[str] = set()
    for path in RECORDS.glob(f"{which}-*"):
        data = CoverageData(str(path))
        data.read()
        (measured,) = [name for name in data.measured_files() if name.endswith("/" + mistake.file)] or [None]
        contexts = data.contexts_by_lineno(measured) if measured else {}
        lines = range(mistake.line, mistake.last_line + 1)
        here = {name for line in lines for name in contexts.get(line, []) if name}
        found |= here or {name for names in contexts.values() for name in names if name}
    package = mistake.file.split("/")[1].removesuffix(".py")
    tests = filter(None, map(node_of, found))
    return sorted(tests, key=lambda test: (not test.startswith(f"tests/{package}/"), test))[:MOST_TESTS]


def node_of(context: str) -> str | None:
    """Return how pytest names the test of a context such as `tests.verify.test_structure.TestSurface.test_a`; None for others."""
    words = context.split(".")
    for k in range(1, len(words)):
        path = Path(*words[:k]).with_suffix(".py")
        if words[0] == "tests" and (ROOT / path).is_file():
            return "::".join([path.as_posix(), *words[k:]])
    return None


def notice(mistake: Mistake) -> str:
    """Plant a mistake, and return which tests notice it: default, slow, or none; `unnoticed` where slow tests are not recorded."""
    with tempfile.TemporaryDirectory() as folder:
        project = copy(Path(folder))
        path = project / mistake.file
        path.write_bytes(mistake.planted(path.read_bytes()))
        for which, title in (("quick", "default"), ("slow", "slow")):
            tests = tests_of(mistake, which)
            marked = "slow" if which == "slow" else "not slow"
            status = run_tests(project, ["-x", "-m", marked, "-o", "addopts=", *tests], []) if tests else 0
            if status not in (0, 1, 2, 5):  # passed, failed, not importable, none selected
                raise RuntimeError((project / "output.txt").read_text()[-2000:])
            if status in (1, 2):
                return title
    return "none" if list(RECORDS.glob("slow-*")) else "unnoticed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="record which tests run which line")
    parser.add_argument("--slow", action="store_true", help="record the slow tests")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", action="store_true", help="print the mistakes, and run nothing")
    options = parser.parse_args()
    if options.record:
        record(options.slow, options.jobs)
        return
    mistakes = draw(options.count, options.seed)
    with ThreadPoolExecutor(options.jobs) as pool:
        found = ["" for _ in mistakes] if options.show else pool.map(notice, mistakes)
        counts: dict[str, int] = {}
        for mistake, by in zip(mistakes, found, strict=True):
            counts[by] = counts.get(by, 0) + 1
            print(f"{by:8} {mistake.kind:11} {mistake.file}:{mistake.line}: {mistake.instead}", flush=True)
    if not options.show:
        print(", ".join(f"{by}: {counts[by]}" for by in sorted(counts)))


if __name__ == "__main__":
    main()
