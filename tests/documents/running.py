"""Run the blocks of a page in their order, in a folder of its own, and say what is not as it is shown."""

import contextlib
import doctest
import filecmp
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import Ran, process
from tests.documents.blocks import ROOT, Block, blocks, read, sections
from tests.documents.comparing import differs, shown_part

EXAMPLES = ROOT / "examples"
_PLAIN = re.compile(r"""gradcli (?:[^|&;<>$`*?\\"']|"[^"$`\\]*")*""")  # a command that needs no shell
_STATUS = "echo $?"
_WITH_THREADS = {"torch", "jax", "tensorflow", "mlx"}  # which a copy of this process would wait for
_LEFT_OUT = re.compile(r"GITHUB_.*|.*COLOR|COLUMNS|LINES|PYTHON(PATH|WARNINGS)|PYTEST_.*")
_ASIDE = shutil.ignore_patterns("__pycache__", ".gradcli_cache")
_FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS

Program = Callable[..., Ran]


@dataclass
class Page:
    """The run of a page.

    folder    The folder that its commands run in: a new one, with a copy of `examples` where the page names it.
    text      The text of the page, or of the one section that is run.
    wrong     What is not as it is shown, in sentences.
    renewed   The text of the page with the outputs of now.
    changed   Files of `examples` that its commands wrote otherwise.
    """

    name: str
    folder: Path
    text: str = ""
    wrong: list[str] = field(default_factory=list)
    renewed: str = ""
    changed: list[Path] = field(default_factory=list)


def run(
    name: str, folder: Path, available: frozenset[str], section: str | None = None, program: Program = process
) -> Page:
    """Run a page, or one section of it: the blocks that need nothing but what is available.

    `program` runs gradcli on arguments, as a process of its own.
    """
    page = Page(name, folder, read(name) if section is None else sections(read(name))[section])
    if "examples" in read(name):
        shutil.copytree(EXAMPLES, folder / "examples", ignore=_ASIDE)
    shell, names, at, parts = Shell(folder, program), {}, 0, []
    for block in blocks(page.text):
        if not block.needs <= available:
            continue
        new = block.text
        if block.file is not None:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.kind == "console":
            new = _commands(block, shell, page.wrong)
        elif block.is_doctest:
            new = _doctest(block, folder, names, page.wrong)
        parts += [page.text[at : block.start], new]
        at = block.start + len(block.text)
    page.renewed = "".join(parts) + page.text[at:]
    page.changed = list(_changed(folder / "examples"))
    return page


def environment() -> dict[str, str]:
    """Return an environment like a plain shell's, with this interpreter's gradcli found first."""
    kept = {name: value for name, value in os.environ.items() if not _LEFT_OUT.fullmatch(name)}
    return kept | {"PATH": f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}


class Shell:
    """A shell that remembers its folder and the status of the last command; `gradcli` is that of this interpreter."""

    def __init__(self, folder: Path, program: Program):
        self._folder, self._status, self._program = folder, 0, program
        self._moved = folder / ".folder"
        self._environ = environment() | {"COLUMNS": "80", "NO_COLOR": "1"}

    def run(self, line: str) -> str:
        """Run a line and return what it prints on both streams."""
        if line.endswith(f"; {_STATUS}"):
            return self.run(line.removesuffix(f"; {_STATUS}")) + self.run(_STATUS)
        if line == _STATUS:
            printed, self._status = f"{self._status}\n", 0
            return printed
        if _PLAIN.fullmatch(line) and (self._program is not process or not _WITH_THREADS & sys.modules.keys()):
            done = self._program(*shlex.split(line)[1:], cwd=self._folder, environ=self._environ, together=True)
            self._status = done.exit_status
            return done.stdout
        script = f'(exit {self._status})\n{line}\nstatus=$?; pwd > "{self._moved}"; exit $status'
        ran = subprocess.run(
            ["bash", "-c", script], cwd=self._folder, env=self._environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", timeout=300, check=False,
        )  # fmt: skip
        self._status = ran.returncode
        self._folder = Path(self._moved.read_text().strip())
        self._moved.unlink()
        return ran.stdout


def _commands(block: Block, shell: Shell, wrong: list[str]) -> str:
    """Run the commands of a block, and return its text with the outputs of now where they differ."""
    parts = []
    for command in block.commands():
        printed = shell.run(command.line)
        apart = differs(command.shown, printed)
        if apart is not None:
            wrong.append(f"$ {command.line}\n{apart}\n--- shown\n{command.shown}--- printed\n{printed}")
            with contextlib.suppress(LookupError):  # which `differs` has said
                printed = shown_part(command.shown, printed)
        parts.append(f"$ {command.line}\n{command.shown if apart is None else printed}")
    return "".join(parts)


def _doctest(block: Block, folder: Path, names: dict[str, object], wrong: list[str]) -> str:
    """Run the examples of a block among the names of the page, and return its text with the outputs of now."""
    test = doctest.DocTestParser().get_doctest(block.text, names, "page", None, None)
    runner = _Outputs(optionflags=_FLAGS)
    with contextlib.chdir(folder), _importable(folder):
        runner.run(test, out=lambda _: None, clear_globs=False)
    names.update(test.globs)
    lines = block.text.splitlines(keepends=True)
    for example, got in reversed(runner.failed):
        wrong.append(f">>> {example.source}--- shown\n{example.want}--- printed\n{got}")
        first = example.lineno + example.source.count("\n")
        lines[first : first + example.want.count("\n")] = [got]
    return "".join(lines)


class _Outputs(doctest.DocTestRunner):
    """A runner that keeps the examples which failed, with what they printed."""

    def __init__(self, **more: int):
        super().__init__(verbose=False, **more)
        self.failed: list[tuple[doctest.Example, str]] = []

    def report_failure(self, out: object, test: object, example: doctest.Example, got: str) -> None:
        self.failed.append((example, re.sub(r"^$", "<BLANKLINE>", got.rstrip("\n"), flags=re.M) + "\n" if got else ""))

    def report_unexpected_exception(self, out: object, test: object, example: doctest.Example, info: object) -> None:
        self.failed.append((example, f"{info[1]!r}\n"))  # type: ignore[index]


@contextlib.contextmanager
def _importable(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _changed(copy: Path) -> Iterator[Path]:
    """Yield the files of `examples`, relative to it, that are there and were written otherwise."""
    for path in copy.rglob("*"):
        original = EXAMPLES / path.relative_to(copy)
        if (
            "__pycache__" not in path.parts
            and path.is_file()
            and original.is_file()
            and not filecmp.cmp(path, original, shallow=False)
        ):
            yield path.relative_to(copy)
