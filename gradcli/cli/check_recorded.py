"""`gradcli check --recorded FILE`."""

from collections.abc import Sequence
from pathlib import Path

from gradcli.cli.output import Output, emit
from gradcli.cli.world import World
from gradcli.errors import BadOption
from gradcli.request.option_values import seed_words
from gradcli.request.options import Options

_FORMS = ("text", "json", "markdown", "csv")


def check_recorded(file: str, words: Sequence[str], to: Output, options: Options, world: World) -> int:
    """Check the calls that `gradcli run --save` has kept, and return the worst status.

    Raises  BadOption for targets beside the file, for a form that a run does not have, and for a file without such calls.
    """
    from gradcli.project.capture.saved import read
    from gradcli.project.capture.study import report_of

    if words:
        raise BadOption("--recorded names all that is checked", do="leave out the targets")
    if to.form not in _FORMS or any(form not in _FORMS for form, _ in to.files):
        raise BadOption("recorded calls have no report of this form", do=f"forms: {', '.join(_FORMS)}")
    with world.users_code(file, options.timeout), world.working(f"checking {file[:40]}", to.quiet):
        found = read(Path(file), options.allow_python)
        command = ("gradcli", "check", "--recorded", file, *seed_words(options.seed))
        report = report_of(found, command, None, options, Path.cwd())
    emit(report, to, world)
    return report.exit_status
