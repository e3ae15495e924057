"""`gradcli modes`, `ops`, `explain` and `schema`: what gradcli says of itself."""

import json as json_module

from gradcli.cli.command_line import argument
from gradcli.cli.output import requested_output, write_report
from gradcli.cli.world import World
from gradcli.errors import BadOption
from gradcli.request.options import Options
from gradcli.words import slug


def modes(world: World, options: Options) -> int:
    """List the modes and devices available here, their versions, and how to install the others.

    Formats: text, json, ndjson, markdown, csv.
    """
    from gradcli.study.accuracy import available_modes

    to = requested_output(("text", "json", "ndjson", "markdown", "csv"), options, world)
    write_report(available_modes(), to, world)
    return 0


OPS_EXAMPLES = """
    gradcli ops tanh
    gradcli ops
    gradcli ops rules.py:softplus
"""


OPS_NAME = argument(str | None, "[NAME]", "One primitive, or file.py:name for one of your own.")


def ops(world: World, name: str | None, options: Options) -> int:
    """List the primitives: domain, kinks, derivative, and the worst error of the derivative in ulps, measured now.

    Formats: text, json, ndjson, markdown, csv.
    """
    from gradcli.study.accuracy import known_operations

    to = requested_output(("text", "json", "ndjson", "markdown", "csv"), options, world)
    if options.check:
        world.tell("note: --check does nothing: every check verifies the rules that its function uses")
    seconds = options.timeout
    with world.users_code(name or "the primitives", seconds=seconds), world.working("measuring", options.quiet):
        report = known_operations(name)
    write_report(report, to, world)
    return report.exit_status


EXPLAIN_EXAMPLES = """
    gradcli explain
    gradcli explain kink
    gradcli explain kink --json
"""
EXPLAIN_KIND = argument(list[str] | None, "[KIND]", "A kind of finding or diagnosis; all, listed, without it.")


def explain(world: World, words: list[str] | None, options: Options) -> int:
    """Say what a kind of finding or diagnosis means, with an example, and what to do about it; or list all kinds.

    Formats: text, brief, json, ndjson, markdown, csv.
    """
    from gradcli.report.explain import ExplainReport, read_explanations

    kind = slug(" ".join(words or ()).lower())
    known = read_explanations()
    found = tuple(row for row in known if kind in ("", row.kind))
    if not found:
        import difflib

        kinds = [row.kind for row in known]
        close = difflib.get_close_matches(kind, kinds, 1, 0.5) or [k for k in kinds if kind in k]
        do = f"did you mean '{close[0]}'?" if close else "gradcli explain lists them"
        raise BadOption(f"there is no kind '{kind}'", do=do)
    to = requested_output(("text", "brief", "json", "ndjson", "markdown", "csv"), options, world)
    write_report(ExplainReport(found), to, world)
    return 0


SCHEMA_EXAMPLES = """
    gradcli schema check > check.schema.json
"""
DOCUMENTS = {
    "check": ("gradcli.report.check", "CheckReport"),
    "compare-modes": ("gradcli.report.compare", "CompareReport"),
    "sweep": ("gradcli.report.sweep", "SweepReport"),
    "cost": ("gradcli.report.cost", "CostReport"),
    "derive": ("gradcli.report.derive", "DeriveReport"),
    "grad": ("gradcli.report.compare", "GradReport"),
    "trace": ("gradcli.report.trace", "TraceReport"),
    "modes": ("gradcli.report.explain", "ModesReport"),
    "ops": ("gradcli.report.explain", "OpsReport"),
    "suite": ("gradcli.report.suite", "SuiteReport"),
    "find": ("gradcli.report.suite", "FindReport"),
    "run": ("gradcli.report.suite", "RunReport"),
    "explain": ("gradcli.report.explain", "ExplainReport"),
    "brief": ("gradcli.report.brief_of_check", "Brief"),
    "error": ("gradcli.report.common", "ErrorReport"),
}


SCHEMA_NAME = argument(str, "NAME", f"One of {', '.join(DOCUMENTS)}, config.")


def schema(world: World, name: str, options: Options) -> int:
    """Print the JSON Schema of a document, generated from the report's type."""
    import importlib

    from gradcli.report.encode import make_schema

    if name == "config":
        from gradcli.project.suite.config import schema_of_suite_file as of_config

        world.stdout.write(json_module.dumps(of_config(), indent=2) + "\n")
        return 0
    short, _, number = name.removeprefix("gradcli.").partition("/")
    if short not in DOCUMENTS:
        raise BadOption(f"there is no document '{name}'", do=f"documents: {', '.join(DOCUMENTS)}, config")
    module, kind = DOCUMENTS[short]
    report = getattr(importlib.import_module(module), kind)
    title: str = report.__dataclass_fields__["schema"].default
    if number not in ("", title.partition("/")[2]):
        raise BadOption(f"this version of gradcli writes {title}", do=f"gradcli schema {short}")
    found = make_schema(report, title)
    world.stdout.write(json_module.dumps(found, indent=2) + "\n")
    return 0
