"""`gradcli schema`."""

import json as json_module
from typing import Annotated

import typer

from gradcli.cli.world import World
from gradcli.errors import BadOption
from gradcli.request.options import Options

EXAMPLES = """Examples:

    gradcli schema check > check.schema.json
"""
TYPES = {
    "check": ("gradcli.report.check", "CheckReport"),
    "compare-modes": ("gradcli.report.compare", "CompareReport"),
    "sweep": ("gradcli.report.sweep", "SweepReport"),
    "cost": ("gradcli.report.cost", "CostReport"),
    "derive": ("gradcli.report.derive", "DeriveReport"),
    "grad": ("gradcli.report.grad", "GradReport"),
    "trace": ("gradcli.report.trace", "TraceReport"),
    "modes": ("gradcli.report.listing", "ModesReport"),
    "ops": ("gradcli.report.listing", "OpsReport"),
    "suite": ("gradcli.report.suite", "SuiteReport"),
    "find": ("gradcli.report.find", "FindReport"),
    "run": ("gradcli.report.run", "RunReport"),
    "explain": ("gradcli.report.explain", "ExplainReport"),
    "brief": ("gradcli.report.brief_of_check", "Brief"),
    "error": ("gradcli.report.common", "ErrorReport"),
}


NAME = Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(TYPES)}, config.", show_default=False)]


def schema(world: World, name: str, options: Options) -> int:
    """Print the JSON Schema of a document, generated from the report's type."""
    import importlib

    from gradcli.report.decode import make_schema

    if name == "config":
        from gradcli.project.suite.config import schema_of_suite_file as of_config

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
    found = make_schema(report, title)
    world.stdout.write(json_module.dumps(found, indent=2) + "\n")
    return 0
