"""`gradcli find` and `gradcli init`."""

import os
import shlex
import textwrap
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gradcli.cli.command_line import argument
from gradcli.cli.output import requested_output, write_report
from gradcli.cli.world import World
from gradcli.errors import BadOption
from gradcli.report.blocks import make_visible
from gradcli.report.forms import make_encodable
from gradcli.request.options import CLAIM_KINDS, Options
from gradcli.words import Exit, Verdict

if TYPE_CHECKING:
    from gradcli.project.discovery.project import Declared, HandGradient
    from gradcli.project.discovery.proposal import Keys, Trial
    from gradcli.project.suite.config import Suite
    from gradcli.report.suite import FindReport


EXAMPLES = """
    gradcli find
    gradcli find src/ --fail-under 90
    gradcli find src/models.py --json
    gradcli find statsmodels.robust
"""
PATHS = argument(
    list[str] | None, "[PATH]...",
    "Python files, folders, and modules by name; by default the paths of the suite, else this folder.",
)  # fmt: skip


def find(world: World, paths: list[str] | None, options: Options) -> int:
    """List every hand-written gradient, with the check that covers it. The files are read; nothing in them is run.

    gradcli finds custom gradients of torch, JAX, TensorFlow and MLX, functions that are passed to scipy as derivatives,
    and functions and methods whose names form a pair, such as focal and focal_grad. It reads tests, virtual
    environments, hidden and built folders, and files that git ignores, but only if you name them.

    Formats: text, brief, json, ndjson, markdown, csv.
    """
    from gradcli.project.suite.config import find_suite

    to = requested_output(("text", "brief", "json", "ndjson", "markdown", "csv"), options, world)
    suite = find_suite(Path.cwd())
    report = build_find_report(paths or suite_paths(suite), suite, options.fail_under)
    write_report(report, to, world)
    if report.next is not None and to.form == "text" and not to.quiet:
        world.tell(f"next: {report.next}")
    if report.exit_status:
        world.tell(f"{report.counts.percent():.4g} percent are checked, less than --fail-under {options.fail_under:g}")
    return report.exit_status


def build_find_report(paths: Sequence[str], suite: "Suite | None", least: float | None) -> "FindReport":
    """Return the report on these paths; its status is 2 where less than `least` percent is checked. Raises BadOption."""
    from gradcli.checks.framework_claim import describe_environment
    from gradcli.project.discovery.reader import find_gradients as read
    from gradcli.report.suite import FindCounts, FindReport, FoundGradient, UnreadableFile, counts_by_folder

    findings = read(paths, declared_checks(suite))
    counts = FindCounts(len(findings.gradients), sum(bool(g.checked_by) for g in findings.gradients))
    status = Exit.UNUSABLE if least is not None and counts.percent() < least else Exit.CONFIRMED
    gradients = tuple(
        FoundGradient(g.name, g.file, g.line, g.kind, g.of, g.found_by, g.checked_by) for g in findings.gradients
    )
    unreadable = tuple(UnreadableFile(u.file, u.reason) for u in findings.unreadable)
    return FindReport(
        findings.paths, gradients, counts_by_folder(gradients), unreadable, counts, _next_step(findings.gradients, suite),
        describe_environment(), status,
    )  # fmt: skip


def _next_step(gradients: "Sequence[HandGradient]", suite: "Suite | None") -> str | None:
    """Return what to do next: check, fill in what stands as a comment, or let init write the checks that lack, if it can."""
    from gradcli.project.discovery.project import is_read_from
    from gradcli.project.discovery.proposal import check_ids, commented_ids
    from gradcli.project.suite.config import read_text

    if all(gradient.checked_by for gradient in gradients):
        return "gradcli check" if gradients else None
    open_ = commented_ids(read_text(suite.path)) if suite is not None and suite.path is not None else frozenset()
    named = zip(gradients, check_ids(gradients), strict=True)
    lacking = {gradient.file for gradient, id in named if not gradient.checked_by and id not in open_}
    if not lacking and suite is not None and suite.path is not None:
        return f"fill in the checks that {suite.path.name} has as comments, then gradcli check"
    if not any(is_read_from(folder, file) for folder in paths_for_init(suite) for file in lacking):
        return "gradcli check --help shows how to check one of them"
    if suite is None or suite.path is None:
        return "gradcli init writes a suite with them"
    there = os.path.relpath(suite.folder)
    return f"{'' if there == '.' else f'cd {shlex.quote(there)} && '}gradcli init --add adds the others to {suite.path.name}"


def paths_for_init(suite: "Suite | None") -> tuple[str, ...]:
    """Return the paths in which `gradcli init` looks: those of the suite, else the folder src/ or this one."""
    if suite is not None and suite.path is not None:
        return suite_paths(suite)
    return ("src" if Path("src").is_dir() else ".",)


def declared_checks(suite: "Suite | None") -> "tuple[Declared, ...]":
    """Return the checks of a suite, as far as it matters for what they cover."""
    from gradcli.project.discovery.project import Declared

    if suite is None:
        return ()
    return tuple(
        Declared(
            check.id, check.ask.target,
            tuple(claim for kind in CLAIM_KINDS if isinstance(claim := getattr(check.ask.options, kind), str)), suite.folder,
        )
        for check in suite.checks
    )  # fmt: skip


def suite_paths(suite: "Suite | None") -> tuple[str, ...]:
    """Return the paths of a suite relative to the current folder; of a project that names none, its folder."""
    if suite is None:
        return (".",)
    return tuple(Path(os.path.relpath(suite.folder / path)).as_posix() for path in suite.paths or (".",))


# `gradcli init`.

INIT_EXAMPLES = """
    gradcli init
    gradcli init --no-try
    gradcli init --github
"""
_WIDEST = 40  # columns of a name; what is longer moves its reason
WORKFLOW = Path(".github", "workflows", "gradcli.yml")


def init(world: World, options: Options) -> int:
    """Write a suite for the hand-written gradients of this folder, and with --github a workflow that runs it.

    If there is a folder src/, only the files in it are read. The suite is added to pyproject.toml or, if there is none,
    written to gradcli.toml. If there is a suite already, --add appends the checks that it lacks, and changes nothing
    else. An existing workflow is never changed. If no point is known for a check, gradcli tries small ones, and runs
    the project's code in a separate process. If none of them works, or with --no-try, the check is written as a comment
    that says what to fill in.
    """
    from gradcli.project.discovery.proposal import check_ids, commented_ids, describe_left_out
    from gradcli.project.discovery.reader import find_gradients
    from gradcli.project.suite.config import find_suite, read_text

    def say(lines: Sequence[str]) -> int:
        for line in () if options.quiet else lines:
            world.stdout.write(make_encodable(f"{make_visible(line)}\n", world.encoding(world.stdout)))
        return 0

    folder = Path()
    workflow = _repository_folder(folder) / WORKFLOW
    if options.github and workflow.exists():
        raise BadOption(f"{_path_from_here(workflow)} is there already", do="remove it, or leave --github out")
    place, is_there = choose_suite_file(folder)
    if is_there and not options.add:
        if not options.github:
            raise BadOption(f"{place} has a suite already", do="gradcli init --add adds the checks that it lacks")
        return say(write_workflow(folder))
    suite = find_suite(folder.absolute())
    if suite is not None and suite.path is not None and not is_there:  # of a folder above
        suite = None
    findings = find_gradients(paths_for_init(suite), declared_checks(suite))
    names = dict(zip(findings.gradients, check_ids(findings.gradients), strict=True))
    known = commented_ids(read_text(place)) if is_there else frozenset()
    open_ = [gradient for gradient in findings.gradients if not gradient.checked_by and names[gradient] not in known]
    trials: dict[int, Trial] = {}
    if not options.no_try:
        from gradcli.project.discovery.proposal import try_checks

        with world.working("trying points", options.quiet, ends="--no-try leaves it out") as tell:
            trials = try_checks(open_, folder, tell)
    run = {k: trial.keys for k, trial in trials.items() if trial.keys is not None}
    reasons = {k: trial.reason for k, trial in trials.items() if trial.keys is None and trial.reason}
    if is_there:
        said = add_checks(place, suite, open_, run, reasons, [names[gradient] for gradient in open_])
    else:
        said = write_suite(place, open_, run, reasons)
    said += _describe_trials(open_, trials, reasons, world.width(world.stdout))
    tried = [open_[k] for k, trial in trials.items() if trial.keys]
    said += [f"{gradient.name} {left}" for gradient in tried if (left := describe_left_out(gradient))]
    if options.github:
        said += write_workflow(folder)
    waiting = any(not gradient.checked_by and names[gradient] in known for gradient in findings.gradients)
    return say([*said, *_next_steps(open_, run, place, len(findings.gradients), waiting)])


def choose_suite_file(folder: Path) -> tuple[Path, bool]:
    """Return the file that the suite of a folder is in, or is written to, and whether it is there.

    Raises  BadOption if pyproject.toml is not TOML.
    """
    from gradcli.project.suite.config import parse_toml, read_text

    own, project = folder / "gradcli.toml", folder / "pyproject.toml"
    if own.exists() or not project.exists():
        return own, own.exists()
    tool = parse_toml(read_text(project), project.name).get("tool", {})
    if not isinstance(tool, dict):
        raise BadOption("'tool' of pyproject.toml must be a table", do="correct it first")
    return project, "gradcli" in tool


def write_suite(
    place: Path, gradients: Sequence["HandGradient"], run: Mapping[int, "Keys"], reasons: Mapping[int, str]
) -> list[str]:
    """Write a suite, and return the lines that say so: added to pyproject.toml, or to a new gradcli.toml."""
    from gradcli.project.discovery.proposal import suite_text

    paths = ["src"] if gradients and all(g.file.startswith("src/") for g in gradients) else ["."]
    count = _count_checks(gradients, run)
    if place.name == "gradcli.toml":
        _write_file(place, suite_text(gradients, paths, "", run, reasons).encode(), "xb")
        return [f"gradcli.toml: written, {count}"]
    text = suite_text(gradients, paths, run=run, reasons=reasons).encode()
    _write_file(place, _separating_newlines(place) + text, "ab")
    return [f"pyproject.toml: [tool.gradcli] added, {count}"]


def add_checks(
    place: Path,
    suite: "Suite | None",
    gradients: Sequence["HandGradient"],
    run: Mapping[int, "Keys"],
    reasons: Mapping[int, str],
    names: Sequence[str],
) -> list[str]:
    """Add checks to the end of the file of a suite, and return the lines that say so.

    Where its checks are written in a form that cannot be added to, the lines are the checks.
    """
    from gradcli.project.discovery.proposal import check_texts
    from gradcli.project.suite.config import CheckNames

    if not gradients:
        return [f"{place.name}: left as it is, each hand-written gradient has a check there, or a comment"]
    free = [*map(CheckNames(check.id for check in (() if suite is None else suite.checks)).of, names)]
    parts = check_texts(gradients, "tool.gradcli" if place.name == "pyproject.toml" else "", run, reasons, free)
    text = _separating_newlines(place) + ("\n\n".join(parts) + "\n").encode()
    try:
        tomllib.loads((place.read_bytes() + text).decode("utf-8-sig"))
    except ValueError:
        says = f"{place.name}: left as it is, since its checks are no tables [[...]]; these can be added:"
        return [says, "", *parts, ""]
    _write_file(place, text, "ab")
    return [f"{place.name}: added at its end, {_count_checks(gradients, run)}"]


def _count_checks(gradients: Sequence["HandGradient"], run: Collection[int]) -> str:
    from gradcli.project.discovery.proposal import is_complete_check

    live = sum(is_complete_check(gradient) or k in run for k, gradient in enumerate(gradients))
    counted = "1 check" if len(gradients) == 1 else f"{len(gradients)} checks"
    return f"{counted}, {len(gradients) - live} of them as comments"


def _describe_trials(
    gradients: Sequence["HandGradient"], trials: Mapping[int, "Trial"], reasons: Mapping[int, str], width: int
) -> list[str]:
    """Return what trying showed: how many ran, which failed, and each that did not run, with why."""
    ran = sum(trial.keys is not None for trial in trials.values())
    verdicts = [trial.verdict for trial in trials.values()]
    words = {Verdict.PASS: "passed", Verdict.FAIL: "failed", Verdict.INCONCLUSIVE: "inconclusive"}
    counted = [f"{verdicts.count(verdict)} {word}" for verdict, word in words.items() if verdict in verdicts]
    said = [f"{ran} ran at a point that was tried: {', '.join(counted)}"] if ran else []
    wrong = [gradients[k].name for k, trial in trials.items() if trial.verdict is Verdict.FAIL]
    said += [f"failed: {', '.join(wrong)}"] if wrong else []
    if reasons:
        said.append("not run:")
        widest = min(_WIDEST, max(len(gradients[k].name) for k in reasons))
        for k, reason in reasons.items():
            line = f"  {gradients[k].name:<{widest}}  {reason.splitlines()[0]}"
            said += textwrap.wrap(line, width, subsequent_indent=" " * (widest + 4))
    return said


def _repository_folder(folder: Path) -> Path:
    """Return the folder that holds .git, this one or one above it; this one where there is none."""
    here = folder.absolute()
    return next((each for each in (here, *here.parents) if (each / ".git").exists()), here)


def _path_from_here(path: Path) -> str:
    return Path(os.path.relpath(path)).as_posix()


def write_workflow(folder: Path) -> list[str]:
    """Write the workflow at the top of the repository, and return the line that says so."""
    from gradcli.project.discovery.proposal import workflow_text

    top = _repository_folder(folder)
    inside = folder.absolute().relative_to(top).as_posix()
    _write_file(top / WORKFLOW, workflow_text(_pip_arguments(folder), "" if inside == "." else inside).encode(), "xb")
    return [f"{_path_from_here(top / WORKFLOW)}: written"]


def _pip_arguments(folder: Path) -> str:
    """Return what pip installs of a project: itself, or what it requires; empty where neither is said."""
    from gradcli.project.suite.config import parse_toml, read_text

    project = folder / "pyproject.toml"
    said = parse_toml(read_text(project), project.name) if project.exists() else {}
    if {"project", "build-system"} & said.keys() or (folder / "setup.py").exists():
        return "."
    return "-r requirements.txt" if (folder / "requirements.txt").exists() else ""


def _separating_newlines(place: Path) -> bytes:
    """Return what comes between the end of a file and what is added: an empty line."""
    before = place.read_bytes()
    return b"" if not before else b"\n" if before.endswith(b"\n") else b"\n\n"


def _write_file(path: Path, content: bytes, mode: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode) as stream:
            stream.write(content)
    except OSError as error:
        raise BadOption(f"{path.as_posix()} cannot be written: {error.strerror}", do="check the folder") from None


def _next_steps(
    gradients: Sequence["HandGradient"], run: Collection[int], place: Path, found: int, waiting: bool
) -> list[str]:
    """Return what to do next; checks from before may be `waiting` to be filled in."""
    from gradcli.project.discovery.proposal import is_complete_check

    if not found:
        return ["no hand-written gradient was found; gradcli check --help shows how to check one"]
    left = [gradient for k, gradient in enumerate(gradients) if not (is_complete_check(gradient) or k in run)]
    if waiting or any(not gradient.only_run for gradient in left):
        return [f"next: fill in what {place.name} marks with ?, then gradcli check"]
    return ["next: gradcli run PROGRAM.py" if left and len(left) == len(gradients) == found else "next: gradcli check"]
