"""`gradcli init`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gradcli.cli.world import World
from gradcli.errors import BadOption
from gradcli.request.options import Options
from gradcli.words import Verdict

if TYPE_CHECKING:
    from gradcli.project.discovery.project import Found
    from gradcli.project.discovery.trial import Trial

EXAMPLES = """Examples:

    gradcli init

    gradcli init --no-try

    gradcli init --github
"""
WORKFLOW = Path(".github", "workflows", "gradcli.yml")


class SuiteExists(BadOption):
    """There is a suite already, which is never changed."""


def init(world: World, options: Options) -> int:
    """Write a suite for the hand-written gradients of this folder, and with --github a workflow that runs it.

    Where there is a folder src/, its files alone are read. The suite is added to pyproject.toml where there is one, else
    written to gradcli.toml. A suite or workflow that is there is never changed. Where no point is known, small ones are
    tried, which runs the project's code in a process of its own; where none runs, or with --no-try, a check is written as a
    comment that says what to fill in.
    """
    from gradcli.project.discovery.reader import find

    folder = Path()
    if options.github and (folder / WORKFLOW).exists():
        raise BadOption(f"{WORKFLOW.as_posix()} is there already", do="remove it, or leave --github out")
    try:
        place = suite_file(folder)
    except SuiteExists as error:
        if not options.github:
            raise
        _write_lines([f"{error.what}: left as it is", *write_workflow(folder)], world, options)
        return 0
    findings = find([_source(folder)])
    trials: dict[int, Trial] = {}
    if not options.no_try:
        from gradcli.project.discovery.trial import tried

        with world.working("trying points", options.quiet, ends="--no-try leaves it out") as tell:
            trials = tried(findings.gradients, folder, tell)
    said = write_suite(place, findings.gradients, trials)
    if options.github:
        said += write_workflow(folder)
    _write_lines([*said, *_next(findings.gradients, trials, place)], world, options)
    return 0


def _write_lines(lines: Sequence[str], world: World, options: Options) -> None:
    for line in () if options.quiet else lines:
        world.stdout.write(f"{line}\n")


def suite_file(folder: Path) -> Path:
    """Return the file that the suite of a folder is written to.

    Raises  SuiteExists; BadOption if pyproject.toml is not TOML.
    """
    from gradcli.project.suite.config import read_text, tables

    own, project = folder / "gradcli.toml", folder / "pyproject.toml"
    if own.exists():
        raise SuiteExists("gradcli.toml is there already", do="gradcli check runs its suite; remove it to begin anew")
    if not project.exists():
        return own
    tool = tables(read_text(project), project.name).get("tool", {})
    if not isinstance(tool, dict):
        raise BadOption("'tool' of pyproject.toml must be a table", do="correct it first")
    if "gradcli" in tool:
        raise SuiteExists("pyproject.toml has a table [tool.gradcli] already", do="gradcli check runs its suite")
    return project


def write_suite(place: Path, gradients: Sequence["Found"], trials: Mapping[int, "Trial"]) -> list[str]:
    """Write a suite, and return the lines that say so: added to pyproject.toml, or to a new gradcli.toml."""
    from gradcli.project.discovery.proposal import is_live, suite

    paths = ["src"] if gradients and all(g.file.startswith("src/") for g in gradients) else ["."]
    run = {k: trial.keys for k, trial in trials.items() if trial.keys is not None}
    reasons = {k: trial.reason for k, trial in trials.items() if trial.keys is None}
    live = sum(map(is_live, gradients)) + len(run)
    count = (
        f"{len(gradients)} {'check' if len(gradients) == 1 else 'checks'}, {len(gradients) - live} of them as comments"
    )
    verdicts = [trial.verdict for trial in trials.values() if trial.verdict is not None]
    said = [f"{len(run)} ran at a point that was tried: {_counted(verdicts)}"] if run else []
    wrong = [gradients[k].name for k, trial in trials.items() if trial.verdict is Verdict.FAIL]
    said += [f"failed: {', '.join(wrong)}"] if wrong else []
    if place.name == "gradcli.toml":
        _write(place, suite(gradients, paths, "", run, reasons).encode(), "xb")
        return [f"gradcli.toml: written, {count}", *said]
    before = place.read_bytes()
    gap = b"" if not before else b"\n" if before.endswith(b"\n") else b"\n\n"
    _write(place, gap + suite(gradients, paths, run=run, reasons=reasons).encode(), "ab")
    return [f"pyproject.toml: [tool.gradcli] added, {count}", *said]


def _counted(verdicts: Sequence[Verdict]) -> str:
    words = {Verdict.PASS: "passed", Verdict.FAIL: "failed", Verdict.INCONCLUSIVE: "inconclusive"}
    return ", ".join(f"{verdicts.count(verdict)} {word}" for verdict, word in words.items() if verdict in verdicts)


def write_workflow(folder: Path) -> list[str]:
    """Write the workflow, and return the line that says so."""
    from gradcli.project.discovery.proposal import workflow

    installable = any((folder / name).exists() for name in ("pyproject.toml", "setup.py", "setup.cfg"))
    _write(folder / WORKFLOW, workflow(installable).encode(), "xb")
    return [f"{WORKFLOW.as_posix()}: written"]


def _write(path: Path, content: bytes, mode: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode) as stream:
            stream.write(content)
    except OSError as error:
        raise BadOption(f"{path.as_posix()} cannot be written: {error.strerror}", do="check the folder") from None


def _source(folder: Path) -> str:
    return "src" if (folder / "src").is_dir() else "."


def _next(gradients: Sequence["Found"], trials: Mapping[int, "Trial"], place: Path) -> list[str]:
    from gradcli.project.discovery.proposal import is_live

    if not gradients:
        return ["no hand-written gradient was found; gradcli check --help shows how to check one"]
    runs = {k for k, trial in trials.items() if trial.keys is not None}
    if all(is_live(gradient) or k in runs for k, gradient in enumerate(gradients)):
        return ["next: gradcli check"]
    return [f"next: fill in what {place.name} marks with ?, then gradcli check"]
