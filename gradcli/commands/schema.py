"""`gradcli schema`."""

import json as json_module
from typing import Annotated

import typer

from gradcli.errors import BadOption
from gradcli.world import World

EXAMPLES = """Examples:

    gradcli schema check > check.schema.json
"""
TYPES = {
    "check": ("gradcli.reports.check", "CheckReport"),
    "compare-modes": ("gradcli.reports.compare", "CompareReport"),
    "sweep": ("gradcli.reports.sweep", "SweepReport"),
    "derive": ("gradcli.reports.derive", "DeriveReport"),
    "grad": ("gradcli.reports.grad", "GradReport"),
    "trace": ("gradcli.reports.trace", "TraceReport"),
    "modes": ("gradcli.reports.listing", "ModesReport"),
    "ops": ("gradcli.reports.listing", "OpsReport"),
    "suite": ("gradcli.reports.suite", "SuiteReport"),
    "find": ("gradcli.reports.find", "FindReport"),
    "run": ("gradcli.reports.run", "RunReport"),
    "explain": ("gradcli.reports.explain", "ExplainReport"),
    "error": ("gradcli.reports.common", "ErrorReport"),
}


def schema(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"One of {', '.join(TYPES)}, config.", show_default=False)
    ],
) -> int:
    """Print the JSON Schema of a document, generated from the report's type."""
    import importlib

    from gradcli.reports.schema import schema_of

    world: World = context.obj
    if name == "config":
        from gradcli.suite.config import schema as of_config

        world.stdout.write(json_module.dumps(of_config(), indent=2) + "\n")
        return 0
    short, _, number = name.removeprefix("gradcli.").partition("/")
    if short not in TYPES:
        raise BadOption(f"there is no document '{name}'", do=f"documents: {', '.join(TYPES)}, config")
    module, kind = TYPES[short]
    report = getattr(importlib.import_module(module), kind)
    title: str = report.__dataclass_fields__["schema"].default
    if number not in ("", title.partition("/")[2]):
        raise BadOption(f"this version of gradcli writes {title}", do=f"gradcli schema {short}")
    found = schema_of(report, title)
    world.stdout.write(json_module.dumps(found, indent=2) + "\n")
    return 0
