"""`gradcli run`."""

import contextlib
import dataclasses
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gradcli.cli.command_line import argument
from gradcli.cli.output import ReportOutput, print_error, requested_output, write_report
from gradcli.cli.world import World
from gradcli.errors import BadOption, GradcliError
from gradcli.request.options import Options
from gradcli.words import Exit

if TYPE_CHECKING:
    from gradcli.project.capture.recorder import Recorder
    from gradcli.project.capture.session import ProgramEnd, Session
    from gradcli.project.discovery.project import HandGradient
    from gradcli.report.suite import RunReport, UsedGradient

EXAMPLES = """
    gradcli run fit.py --rounds 3
    gradcli run --keep 10 --out report.json -m mypackage.train
    gradcli run -m pytest tests/
"""
WORDS = argument(
    list[str], "SCRIPT [ARGS]... | -m MODULE [ARGS]...", "The program, as python takes it; gradcli's options come before it."
)  # fmt: skip


def run(world: World, words: list[str], options: Options) -> int:
    """Run a program as python does, and check every hand-written gradient that it uses, at the values that it used.

    gradcli checks gradients given to scipy.optimize and scipy.integrate, custom gradients of torch, JAX, TensorFlow and
    MLX, backward passes of layers, of pairs with a cache and of networks, and pairs that the program names by
    gradcli.watch. For each gradient, it checks the first call, the call with the largest input, and others drawn
    evenly. The program's output stays as it is; the report goes to standard error.

    Exit status: that of the program if it is not 0, else that of the worst check.
    Formats of --out: text, json, markdown, csv, junit, sarif.
    """
    to = requested_output(("text", "json", "markdown", "csv", "junit", "sarif"), options, world)
    _refuse_unwritable_files(options)
    world.afterwards = lambda: _Run(words, to, options, world).status()
    return Exit.CONFIRMED


def _find_unwatched_gradients(report: "RunReport", folder: Path) -> tuple[str, ...]:
    """Return the hand-written gradients, with their places, that the report has no row of.

    They are those in the files below the folder that the program loaded.
    """
    from gradcli.project.capture.run_report import shown_path
    from gradcli.project.discovery.reader import find_gradients
    from gradcli.targets.replacement_scope import users_modules

    files = {str(module.__file__) for module in users_modules() if str(module.__file__).endswith(".py")}
    top = folder.resolve()
    files = {file for file in files if Path(file).is_file() and Path(file).resolve().is_relative_to(top)}

    def keys(file: str | Path, each: "UsedGradient | HandGradient") -> set[tuple[str, int | str]]:
        """Return what a row is known by; it may be of a method, and what is found of its class, or the other way round."""
        owner = each.name.rpartition(".")[0] or each.name
        return {(os.path.realpath(file), key) for key in (each.line, each.name, owner)}

    used = {key for each in report.gradients for key in keys(folder / each.file, each)}
    found = find_gradients(sorted(files)).gradients if files else ()
    left = [each for each in found if used.isdisjoint(keys(each.file, each))]
    return tuple(f"{each.name}, {shown_path(each.file, folder)}:{each.line}" for each in left)


def _refuse_unwritable_files(options: Options) -> None:
    """Raise BadOption for a file that cannot be written, before the program runs."""
    for flag, text, ending in (("--save", options.save, ".npz"), ("--write-suite", options.write_suite, ".toml")):
        if text is None:
            continue
        path = Path(text)
        if path.suffix != ending:
            do = f"write {flag} {path.stem or 'file'}{ending}"
            raise BadOption(f"{flag} writes {ending}, not '{text[:80]}'", do=do)
        if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            raise BadOption(f"{text[:80]} cannot be written", do="name a file in a folder that exists")
        if flag == "--write-suite" and path.exists():
            raise BadOption(f"{text[:80]} is there already", do="name a new file, or remove it")
        if flag == "--write-suite" and path.name == "gradcli.toml":
            from gradcli.project.suite.config import find_suite_file

            known = find_suite_file(path.parent.absolute())
            if known is not None and known.parent == path.parent.absolute():
                says = f"{text[:80]} would hide the suite in {known.name}"
                raise BadOption(says, do="name another file: checks.toml")


class _Run:
    """One program: it is run, what it used is checked, and the report is written."""

    def __init__(self, words: list[str], to: ReportOutput, options: Options, world: World) -> None:
        self._words, self._to, self._options, self._world = words, to, options, world
        self._folder = Path.cwd()  # the program may change it

    def status(self) -> int:
        """Run the program and check its gradients; return the exit status."""
        from gradcli.project.capture.session import DEFAULT_BYTES, ProgramEnd, RecordingRequest, Session
        from gradcli.project.capture.session import execute_program as run_program
        from gradcli.project.suite.config import import_folders

        options = self._options
        room = options.keep_bytes or DEFAULT_BYTES
        session = Session(RecordingRequest(options.keep, room, options.source, options.seed))
        # before `os._exit` ends the process
        session.begin(at_exit=lambda status: self._finish_program(session, ProgramEnd(status)))
        sys.path += [folder for folder in import_folders(self._folder) if folder not in sys.path]
        ended = run_program(self._words, session.layers.look_at_script)
        if session.children.is_child:  # it was forked, and came to the program's end
            session.children.ended()
            return ended.status
        status = self._finish_program(session, ended)
        if ended.interrupted and status == ended.status and os.name == "posix":
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        return status

    def _finish_program(self, session: "Session", ended: "ProgramEnd") -> int:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):  # the program may have closed or replaced it
                stream.flush()
        recorder = session.end()
        if not ended.started:
            return ended.status
        from gradcli.project.capture.recorder import protected_process_state

        with protected_process_state():
            return self._report_gradients(recorder, ended)

    def _report_gradients(self, recorder: "Recorder", ended: "ProgramEnd") -> int:
        """Check what was recorded, write the report, and return the exit status."""
        from gradcli.project.capture.run_report import check_recorded_calls
        from gradcli.report.suite import Program
        from gradcli.request.option_values import seed_words

        try:
            with self._world.stdout_kept_clean(), self._world.working("checking the gradients", self._to.quiet):
                program = Program(ended.status, ended.interrupted)
                used = [(each, "") for each in recorder.all()]
                command = ("gradcli", "run", *seed_words(self._options.seed), *self._words)
                report = check_recorded_calls(used, command, program, self._options, self._folder)
                left = _find_unwatched_gradients(report, self._folder)
                if left:
                    report = dataclasses.replace(report, unwatched=len(left), not_watched=left)
            write_report(report, self._to, dataclasses.replace(self._world, stdout=self._world.stderr))
            if self._to.quiet and report.exit_status:
                self._world.tell(report.counted())
            self._write_requested_files(recorder, report)
        except GradcliError as error:
            print_error(error, None, self._world)
            return ended.status or Exit.UNUSABLE
        except (OSError, ValueError):  # standard error is closed
            return ended.status or Exit.UNUSABLE
        return report.exit_status

    def _write_requested_files(self, recorder: "Recorder", report: "RunReport") -> None:
        """Write the recorded calls, and a suite of checks of them, where that is asked for."""
        options = self._options
        if options.save is not None:
            from gradcli.project.capture.saved import save_calls

            save_calls(recorder, self._words, self._folder / options.save)
        if options.write_suite is not None:
            from gradcli.project.capture.run_report import shown_path
            from gradcli.project.capture.saved import write_suite_of_calls

            calls = {
                (row.file, row.line): point.call
                for row in report.gradients
                for point in reversed(row.points)
                if point.check.verdict == "fail" and point.process is None
            }
            definitions = [each.definition for each in recorder.all()]
            places = {each: (shown_path(each.file, self._folder), each.line) for each in definitions}
            failed = {each: calls[place] for each, place in places.items() if place in calls}
            self._world.tell(write_suite_of_calls(recorder, self._folder / options.write_suite, failed))
