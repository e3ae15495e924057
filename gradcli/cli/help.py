"""Help pages: what a command does, examples, then its options in groups; `--help-all` shows also those that few need."""

from typing import Any

from typer.core import TyperCommand, TyperGroup

from gradcli.request.options import GROUPS, options_of_command

HELP_ALL = "--help-all"
_OTHERS = "Other"


class _AsTyped:
    """What typer asks for the value of a parameter: the word itself, as the table of options converts it."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        return list(value or ()) if param.multiple or param.nargs == -1 else value


class _Words:
    """What has parameters; typer itself would import pydantic to convert their values, for a sixth of the time of a check."""

    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in found:
            parameter._runtime_param = _AsTyped()
        return found


class AllCommands(_Words, TyperGroup):
    """All commands together."""


class Command(_Words, TyperCommand):
    """A command whose help shows examples before options, and options in groups."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_epilog(ctx, formatter)
        self.format_options(ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", *(_metavar(p) for p in self.get_params(ctx) if p.param_type_name == "argument")]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        found: dict[str, list[tuple[str, str]]] = {}
        of_few = [row.name for row in options_of_command(str(self.name)) if row.rare]
        rare = () if ctx.obj else of_few  # obj: whether all are asked for
        for parameter in self.get_params(ctx):
            if parameter.name in rare or HELP_ALL in parameter.opts:
                continue
            if parameter.param_type_name == "argument":
                found.setdefault("Arguments", []).append((_metavar(parameter), str(getattr(parameter, "help", ""))))
            elif (record := parameter.get_help_record(ctx)) is not None:
                found.setdefault(getattr(parameter, "rich_help_panel", None) or _OTHERS, []).append(record)
        found.setdefault(_OTHERS, []).append(("-h, --help", "Show this and exit."))
        if of_few:
            found[_OTHERS].append((HELP_ALL, f"Show all options: {len(of_few)} more, which few people need."))
        for group in ("Arguments", *GROUPS, _OTHERS):
            if group in found:
                with formatter.section(group):
                    formatter.write_dl(found[group])


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())
