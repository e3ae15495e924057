"""`%gradcheck` and `%%gradcheck` of IPython: `gradcli check` for the functions and the values of a notebook."""

import ast
import io
import re
import shlex
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from gradcli.checks.build import build_request
from gradcli.checks.framework_claim import describe_environment
from gradcli.cli.command_line import (
    TARGETS,
    Command,
    arrange_command_words,
    make_command,
    parse_command,
    separate_examples,
)
from gradcli.cli.target_requests import request_target
from gradcli.cli.world import World
from gradcli.derivation.right_answer import right_answer
from gradcli.errors import BadOption, BadTarget, GradcliError, closest_name
from gradcli.project.discovery import proposal
from gradcli.project.discovery.bodies import collect_scopes
from gradcli.project.discovery.gather import gather_gradients
from gradcli.project.discovery.project import HandGradient, Project
from gradcli.project.suite.config import CheckNames
from gradcli.repair.full_check import full_check
from gradcli.report.check import CheckReport
from gradcli.report.common import Printed, error_detail, error_report
from gradcli.report.encode import encode
from gradcli.report.forms import Page, enable_report_display, error_as_text
from gradcli.report.suite import CheckRow, SuiteReport, count_verdicts, exit_status_of_checks, row_of_document
from gradcli.request.options import CLAIM_KINDS, Option, Options, options_of_command, replace_claim
from gradcli.request.target_text import ASSIGNMENT, has_several_targets
from gradcli.targets.loading import NOTEBOOK
from gradcli.targets.missing import PATH_OF_AN_ENTRY, blank_quoted_parts
from gradcli.targets.target_request import TargetRequest

enable_report_display()

_NOT_IN_NOTEBOOKS = ("timeout", "threads")  # options that a running process cannot have
_OF_THE_TEXT = ("verbose",)
_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_CALLED = re.compile(rf"({_NAME.pattern})(?:\(\))?")
_VALUE = re.compile(
    rf"(?:(?<=^)|(?<=[,;\n]))(?P<name>\s*{PATH_OF_AN_ENTRY}\s*=\s*)(?P<value>{_NAME.pattern})(?=\s*(?:[,;\n]|$))"
)
_ABOUT = """Verify the gradient of a function of the notebook, of an expression, or of a file's function, or one you claim.

Functions and values are named as in the notebook: the target, the claim (--grad), --at w, and NAME=VALUE with a variable
as the value. %%gradcheck runs its cell and checks every gradient that the cell defines, by names such as f and f_grad.
"""
EXAMPLES = """
    %gradcheck "sin(x*y) + exp(-x**2)" x=0.5 y=1.2
    %gradcheck loss --grad loss_grad --at w
    %gradcheck loss --grad loss_grad --at "w=w0, X=data.X, y=randn(8)" --stress
    %%gradcheck --at "x=randn(3)"
"""


def gradcheck(shell: Any, line: str, cell: str | None = None) -> Printed | None:
    """Check what a line asks for, or the gradients that a cell defines, and return the report; None after `--help`.

    Raises  IPython's UsageError, which is shown without a traceback, with the message of the command line.
    """
    from IPython.core.error import UsageError

    __tracebackhide__ = True
    try:
        asked = _parse_line(line)
        if asked is None:
            return None
        words, options = asked
        source = None if cell is None else _run_cell(shell, cell)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # numpy's; what is empty or not finite becomes a finding
            if source is None or (words and not ASSIGNMENT.fullmatch(words[0])):
                if not words:
                    raise BadOption("there is no target", do='write one: %gradcheck "sin(x*y)" x=0.5 y=1.2')
                return _check_target(request_target(words, options, World(io.StringIO())), shell.user_ns)
            return _check_gradients(_gradients_of_cell(*source), words, options, shell.user_ns, line)
    except GradcliError as error:
        text = error_as_text(error_detail(error), Page()).removeprefix("error: ").rstrip()
    raise UsageError(text)


def _parse_line(line: str) -> tuple[list[str], Options] | None:
    """Return the words and the options in a line; None where it asks for help, which is printed. Raises BadOption."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        do = 'quote as in a shell: %gradcheck "sin(x*y)" x=0.5 y=1.2'
        raise BadOption(f"the line cannot be read: {error}", do=do) from None
    arguments = arrange_command_words("check", words, _notebook_options(), "%gradcheck")
    found = parse_command(_notebook_parser(), "%gradcheck", arguments, World(io.StringIO()))
    return None if isinstance(found, int) else (list(found.words or ()), found.options)


def _notebook_options() -> list[Option]:
    """Return the options of `check` that a notebook can have: those that say what is checked, and how."""
    rows = options_of_command("check")
    possible = {row.name for row in rows if row.write is not None} - {*_NOT_IN_NOTEBOOKS}
    return [row for row in rows if row.name in possible or row.name in _OF_THE_TEXT]


@cache
def _notebook_parser() -> Any:
    """Return `gradcli check` with the options that a notebook can have."""
    from typer import Typer
    from typer.main import get_command

    app = Typer(add_completion=False, rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})
    command = make_command("check", _ABOUT, TARGETS, _notebook_options())
    app.command("check", epilog=separate_examples(EXAMPLES), cls=Command)(command)
    return get_command(app)


def _check_target(ask: TargetRequest, names: Mapping[str, Any]) -> CheckReport:
    """Return the report on one target."""
    known = _resolve_notebook_names(replace(ask, command=("%gradcheck", *ask.command_to_repeat[2:])), names)
    return replace(full_check(build_request(known), known, right_answer), full=ask.options.verbose)


def _resolve_notebook_names(ask: TargetRequest, names: Mapping[str, Any]) -> TargetRequest:
    """Return a request in which what the notebook names is named as an object of its module. Raises BadTarget."""
    target, claim = ask.target.strip(), ask.claim
    called = _CALLED.fullmatch(target)
    if called is not None:
        if called[1].partition(".")[0] not in names:
            near = closest_name(target, [name for name, x in names.items() if callable(x) and not name.startswith("_")])
            do = f"did you mean '{near}'?" if near else "run the cell that defines it"
            raise BadTarget(f"this notebook has no '{target}'", do=do)
        target = f"{NOTEBOOK}:{target}"
    elif claim is not None and callable(names.get(claim[1].strip())):  # an expression, claimed by a function
        claim = claim[0], f"{NOTEBOOK}:{claim[1].strip()}"
    at = tuple(_resolve_point_values(text, names) for text in ask.at)
    return replace(ask, target=target, at=at, options=replace_claim(ask.options, claim), module=NOTEBOOK)


def _resolve_point_values(text: str, names: Mapping[str, Any]) -> str:
    """Return a text of a point in which values that the notebook names are named as objects of its module."""
    for match in reversed([*_VALUE.finditer(blank_quoted_parts(text))]):
        if match["value"].partition(".")[0] in names:
            start = match.start("value")
            text = f"{text[:start]}{NOTEBOOK}:{text[start:]}"
    return text


def _run_cell(shell: Any, cell: str) -> tuple[str, str]:
    """Run a cell in the notebook's namespace, and return its code and the name of it as a file; its lines are those shown."""
    __tracebackhide__ = True  # an error of the cell is shown without what runs the cell
    empty = next((k for k, line in enumerate(cell.splitlines()) if line.strip()), 0)  # lines that IPython leaves out
    code = "\n" * (1 + empty) + shell.transform_cell(cell)  # the line of the magic is the first
    name = shell.compile.cache(code, len(shell.history_manager.input_hist_parsed) - 1)
    tree = shell.transform_ast(shell.compile.ast_parse(code, filename=name))
    exec(shell.compile(tree, name, "exec"), shell.user_ns)
    return code, name


def _gradients_of_cell(code: str, name: str) -> list[HandGradient]:
    """Return the gradients that a cell defines, with their functions. Raises BadTarget where there is none."""
    project = Project()
    project.add(collect_scopes(ast.parse(code), name))
    found = [g for g in gather_gradients(project, [name], ()) if g.reachable or g.found_by in proposal.CUSTOM]
    if not found:
        says = "the cell defines no function together with its gradient"
        raise BadTarget(says, do="name them as f and f_grad, or name both: %gradcheck f --grad g --at w")
    return [replace(gradient, file=NOTEBOOK) for gradient in found]


def _check_gradients(
    found: Sequence[HandGradient], words: Sequence[str], options: Options, names: Mapping[str, Any], line: str
) -> CheckReport | SuiteReport:
    """Return the report on the one gradient of a cell, or on all of them."""
    if has_several_targets(["", *words]):
        raise BadOption("values are written NAME=VALUE", do='write %%gradcheck --at "x=randn(3)"')
    asked = [_request_of_gradient(gradient, words, options) for gradient in found]
    if len(asked) == 1:
        return _check_target(asked[0], names)
    started, taken = time.perf_counter(), CheckNames()
    rows = tuple(_check_row(taken.of(gradient.name), each, names) for gradient, each in zip(found, asked, strict=True))
    return SuiteReport(
        ("%%gradcheck", *shlex.split(line)), options.seed, None, None, None, tuple(row.id for row in rows), "",
        count_verdicts(rows), int(exit_status_of_checks(rows)), time.perf_counter() - started, rows,
        describe_environment(), full=options.verbose,
    )  # fmt: skip


def _request_of_gradient(gradient: HandGradient, words: Sequence[str], options: Options) -> TargetRequest:
    """Return the request to check a gradient of the cell; `words` are values of what it has for inputs."""
    keys = proposal.keys_of_check(gradient)
    values = {key: x.removeprefix(f"{NOTEBOOK}:") if isinstance(x, str) else x for key, x in keys.items()}
    claim = next(((kind, str(values[kind])) for kind in CLAIM_KINDS if kind in values), None)
    inputs = {parameter.name for parameter in gradient.parameters}
    own = [word for word in words if not inputs or re.split(r"[\s.=\[]", word.strip())[0] in inputs]
    at = (*options.at, *own)
    if not at and "at" in values:
        at = (str(values["at"]),)
    options = replace_claim(options, claim)
    if "value-and-grad" in values:
        options = replace(options, value_and_grad=True)
    return TargetRequest(str(values["target"]), at, options)


def _check_row(name: str, ask: TargetRequest, names: Mapping[str, Any]) -> CheckRow:
    """Return one of several checks; an error is an answer too."""
    started = time.perf_counter()
    try:
        document = encode(_check_target(ask, names))
    except GradcliError as error:
        document = encode(error_report(error))
    return row_of_document(name, ask.target, document, time.perf_counter() - started)
