"""What the documents take from the code: whole pages, and the parts between `<!-- NAME -->` and `<!-- end of NAME -->`."""

import importlib
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import typer.core

from gradcli.cli.listings import DOCUMENTS
from gradcli.cli.main import make_parser
from gradcli.project.suite.config import schema_of_suite_file as configuration_schema
from gradcli.report.encode import make_schema
from gradcli.report.explain import Explanation, read_explanations
from gradcli.request.options import GROUPS
from gradcli.words import ExplainedGroup, Kind
from tests.documents.blocks import pages, read
from tests.rules.numpy_partition import group_functions

_CODE = re.compile(
    r"`[^`]+`"  # code already
    r'|"[^"]*[*_<|=:@][^"]*"'  # a value in quotes
    rf"|\bgradcli (?:{'|'.join(make_parser().commands)})\b(?: [\w.]+\.py:\w+)?(?: --[a-z-]+(?: [a-z]\b)?)?"  # a command
    r"|(?<![\w-])--[a-z][\w-]*(?: (?:[A-Z]+\b|\d[\w.-]*\w|\d|(?<=--allow )[a-z-]+))?"  # an option, with its value
    r"|(?<![\w@/])[\w./]+\.(?:py|toml|npz|npy|json|csv)(?::\w+)?\b"  # a file
    r"|[\w()\[\]./+-]*\*[\w()\[\]*./+-]*[\w)\]]"  # a formula
)
_LEADS = {  # the pages that people look for first, in the order of llms.txt
    "Begin": ("README.md", "docs/tutorial.md"),
    "Walkthroughs": ("docs/walkthroughs/",),
    "How to": ("docs/how-to/",),
    "Explanation": ("docs/explanation/",),
    "Reference": ("docs/reference/",),
    "Examples": ("docs/gallery.md", "docs/findings/index.md", "docs/changelog.md"),
}

FUNCTION = {
    Kind.KINK, Kind.JUMP, Kind.STAIRCASE, Kind.FINE_STRUCTURE, Kind.NON_FINITE, Kind.KINK_NEARBY, Kind.BRANCH, Kind.INFINITE_SLOPE,
    Kind.ZERO_SLOPE, Kind.DETERMINISTIC, Kind.TRACE, Kind.TRACE_TEST, Kind.UNTRACED, Kind.NOT_DETERMINISTIC, Kind.EARLIER_CALLS,
    Kind.MUTATES_INPUT, Kind.INTEGER, Kind.NOTICE, Kind.CONTRADICTION, Kind.COMPLEX, Kind.WEAK, Kind.MODULE, Kind.CUT,
    Kind.MASKED_NAN, Kind.STRAIGHT_THROUGH, Kind.STOP_GRADIENT,
}  # fmt: skip
PRECISION = {
    Kind.RANGE, Kind.SCALE, Kind.NOISE, Kind.NOT_RESOLVED, Kind.NO_SECOND_WITNESS, Kind.DISAGREEMENT, Kind.DIRECTION, Kind.REFERENCE,
    Kind.SECOND_ORDER, Kind.PRECISION, Kind.INACCURATE, Kind.COVERAGE, Kind.PROJECTION,
}  # fmt: skip
PROJECT = {
    Kind.CHANGED_SINCE, Kind.NOTHING_TO_CHECK, Kind.NOTHING_TO_COMPARE, Kind.REFUSED, Kind.MUTANT, Kind.TIMEOUT, Kind.BUDGET,
    Kind.UNAVAILABLE,
}  # fmt: skip
SUBJECTS: dict[str, tuple[str, Callable[[Explanation], bool]]] = {
    "Claims": (
        "What is wrong with the gradient that you wrote, and how gradcli read it.",
        lambda row: row.group == "mistake" or row.kind not in FUNCTION | PRECISION | PROJECT,
    ),
    "Functions": (
        "How the function behaves at the point, from call to call, and in a framework.",
        lambda row: row.group != "mistake" and row.kind in FUNCTION,
    ),
    "Precision": (
        "How many digits can be trusted, and what function values can show.",
        lambda row: row.kind in PRECISION,
    ),
    "Projects": (
        "What can happen to a request, a suite of checks, or a run of a program.",
        lambda row: row.kind in PROJECT,
    ),
}
DOES: dict[ExplainedGroup, str] = {"prevents a pass": "prevents a pass", "informs": "informs", "mistake": "a diagnosis"}


def commands() -> str:
    """Return the commands in the order of `gradcli --help`, and after them the options that several of them have."""
    found = make_parser().commands
    rows = {
        name: [p for p in c.params if isinstance(p, typer.core.TyperOption) and not p.hidden]
        for name, c in found.items()
    }
    having: dict[Any, list[str]] = {}
    for name, options in rows.items():
        for option in options:
            having.setdefault(_option(option), []).append(name)
    shared = {row: names for row, names in having.items() if len(names) > 1}
    parts = [_command(name, found[name], rows[name], shared) for name in found]
    parts.append("## Options of several commands\n\nEach option is listed with the commands that take it.\n")
    once = {_option(option): option for options in rows.values() for option in options if _option(option) in shared}
    for panel, options in _by_panel(once.values()):
        lines = [f"{_option(option)} {', '.join(shared[_option(option)])} |" for option in options]
        parts.append(_table((panel, "value", "meaning", "commands"), lines) + "\n")
    return "\n".join(parts)


def _command(name: str, found: Any, options: Iterable[Any], shared: Container[str]) -> str:
    arguments = " ".join(p.metavar or p.name for p in found.params if p.param_type_name == "argument")
    parts = [f"## gradcli {name}", f"```text\ngradcli {name} {arguments}".rstrip() + "\n```"]
    parts += [_marked(" ".join(paragraph.split())) for paragraph in (found.help or "").strip().split("\n\n")]
    examples = re.findall(r"^ {4}(gradcli .*)$", found.epilog or "", re.MULTILINE)
    if examples:
        parts.append("```text\n" + "\n".join(examples) + "\n```")
    for panel, rows in _by_panel(option for option in options if _option(option) not in shared):
        parts.append(_table((panel, "value", "meaning"), map(_option, rows)))
    others = ", ".join(_spelled(o) for _, rows in _by_panel(options) for o in rows if _option(o) in shared)
    if others:
        parts.append(f"[Options of several commands](#options-of-several-commands): {others}.")
    return "\n\n".join(parts) + "\n"


def _by_panel(options: Iterable[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the options of each panel, in the order of the help."""
    ordered = sorted(options, key=lambda option: GROUPS.index(option.rich_help_panel))
    for panel, rows in groupby(ordered, lambda option: option.rich_help_panel):
        yield panel, list(rows)


def _table(heads: Sequence[str], rows: Iterable[str]) -> str:
    return "\n".join([f"| {' | '.join(heads)} |", f"| {' | '.join(['---'] * len(heads))} |", *rows])


def _option(option: Any) -> str:
    value = "" if option.is_flag else f"`{_cell(option.metavar)}`"
    shown = option.show_default and option.default is not None
    about = (option.help or "") + (f"  [default: {option.default}]" if shown else "")
    return f"| {_spelled(option)} | {value} | {_cell(_marked(about))} |"


def _spelled(option: Any) -> str:
    return ", ".join(f"`{o}`" for o in sorted((*option.opts, *option.secondary_opts), key=len))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _marked(text: str) -> str:
    """Return a sentence of the program with options, files, formulas and quoted values as code."""
    return _CODE.sub(lambda m: m[0] if m[0][0] == "`" else f"`{m[0]}`", text)


def numpys_functions() -> str:
    """Return the sentence that says how numpy's functions are taken."""
    found = Counter(group_functions().values())
    said = (
        f"Of the {found.total()} public functions of numpy, numpy.linalg and numpy.fft, {found['primitive']} are primitives "
        f"with a rule of their own, {found['composite']} are composites of these, {found['constant']} are constants without "
        f"a derivative, and {found['refused']} are refused, each with its reason."
    )
    return textwrap.fill(said, 118) + "\n"


def documents() -> str:
    """Return the fields of each document of `--json`, from the types of the reports."""
    parts = []
    for name, (module, kind) in DOCUMENTS.items():
        report = getattr(importlib.import_module(module), kind)
        title = report.__dataclass_fields__["schema"].default
        found = make_schema(report, title)
        parts += [f"## {title}", f"{found['description']} `gradcli schema {name}` prints its JSON Schema."]
        parts.append("\n".join(["| field | type | meaning |", "| --- | --- | --- |", *_fields(found)]))
    return "\n\n".join(parts) + "\n"


def _fields(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        here = f"{path}{name}"
        yield f"| `{here}` | {_type(field)} | {_cell(_marked(field.get('description', '')))} |"
        inner, mark = _inside(field)
        if inner is not None and here.count(".") < 6:
            yield from _fields(inner, f"{here}{mark}.")


def _inside(field: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str]:
    """Return the object inside of a field, and how the path to its fields goes on: `[]` for lists, `.NAME` for names."""
    for option in field.get("anyOf", [field]):
        if "properties" in option:
            return option, ""
        for key, mark in (("items", "[]"), ("additionalProperties", ".NAME")):
            if isinstance(option.get(key), dict):
                inner, more = _inside(option[key])
                if inner is not None:
                    return inner, mark + more
    return None, ""


def _type(field: Mapping[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(option) for option in field["anyOf"]))
    if "$ref" in field:
        return field["$ref"].rpartition("/")[2].replace("_", " ")
    if "enum" in field:
        return ", ".join(f"`{word}`" for word in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    if isinstance(field.get("additionalProperties"), dict):
        return f"object of {_type(field['additionalProperties'])}"
    kind = field.get("type", "anything")
    return kind if isinstance(kind, str) else " or ".join(kind)


def configuration() -> str:
    """Return the keys of a suite, from the schema of the configuration."""
    top = {key: about for key, about in configuration_schema()["properties"].items() if "deprecated" not in about}
    check = top["check"]["items"]["properties"]
    shared = [key for key in top if key in check]
    lines = []
    for title, rows in (
        ("Keys of the project alone", {key: top[key] for key in top if key not in check}),
        ("Keys of a check alone", {key: check[key] for key in check if key not in top}),
        ("Keys of both: of a check, or of all checks at the top", {key: check[key] for key in shared}),
    ):
        lines += [f"## {title}", "", "| key | value | meaning |", "| --- | --- | --- |"]
        for key, found in rows.items():
            about = found.get("description", "") + (f"  [default: {found['default']}]" if "default" in found else "")
            lines.append(f"| `{key}` | {_cell(_type(found))} | {_cell(_marked(about))} |")
        lines.append("")
    return "\n".join(lines)


def kinds() -> str:
    """Return a table of kinds for each subject, with a link to the page of each, and the list that Sphinx needs."""
    parts, listed, known = [], dict[str, None](), read_explanations()
    for subject, (about, has) in SUBJECTS.items():
        rows = [row for row in known if has(row)]
        listed |= dict.fromkeys(row.kind for row in rows)
        lines = [
            f"| [{row.kind}](../../gradcli/report/explanations/{row.kind}.md) | {row.summary} | {DOES[row.group]} |"
            for row in rows
        ]
        parts.append(f"## {subject}\n\n{about}\n\n" + _table(("kind", "what it is", "sort"), lines))
    pages = "\n".join(listed)
    return "\n\n".join([*parts, f"```{{toctree}}\n:hidden:\n\n{pages}\n```"]) + "\n"


def for_language_models() -> str:
    """Return llms.txt: each page with a link and its first sentence."""
    lines = [
        "# gradcli",
        "",
        "> gradcli verifies and derives gradients: of expressions, of Python functions, and of torch, JAX, TensorFlow and MLX "
        "code. It computes a gradient in six ways, checks one that you claim, names the mistake, and says how far each value "
        "can be trusted.",
        "",
        'Install: `pip install .` in a clone. First command: `gradcli check "sin(x*y)" x=0.5 y=1.2`. Exit statuses: 0 confirmed, '
        "1 wrong, 2 not carried out, 3 inconclusive. `--json` is one document, `--format brief` ten lines at most.",
        "",
        "For agents: `pip install '.[mcp]'`, then `claude mcp add --scope project gradcli -- gradcli mcp`, or in the settings of a client: "
        '`{"mcpServers": {"gradcli": {"command": "gradcli", "args": ["mcp"]}}}`. Tools: check, derive, cost, find, explain. '
        "After writing a backward pass call check with target, grad and at; make the edit that it returns, and check again.",
    ]
    for part, wanted in _LEADS.items():
        lines += ["", f"## {part}", ""]
        for page in pages():
            if page in wanted or any(w.endswith("/") and page.startswith(w) and page != f"{w}index.md" for w in wanted):
                link = "index.md" if page == "README.md" else page.removeprefix("docs/")
                lines.append(f"- [{title(page)}]({link}): {_first_sentence(page)}")
    return "\n".join(lines) + "\n"


def title(page: str) -> str:
    found = re.search(r"^# (.*)$", read(page), re.MULTILINE)
    assert found is not None, f"{page} has no heading"
    return found[1]


def _first_sentence(page: str) -> str:
    body = re.split(r"^# .*\n", read(page), maxsplit=1, flags=re.MULTILINE)[1]
    paragraph = next(p for p in body.split("\n\n") if re.match(r"\s*[\w`*\[]", p))
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)|\*\*", lambda m: m[1] or "", " ".join(paragraph.split()))
    return re.split(r"(?<=[.:?]) (?=[A-Z`])", text, maxsplit=1)[0]


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "commands": ("docs/reference/commands.md", commands),
    "documents": ("docs/reference/json.md", documents),
    "configuration": ("docs/reference/configuration.md", configuration),
    "kinds": ("docs/findings/index.md", kinds),
    "numpy's functions": ("docs/reference/python-functions.md", numpys_functions),
}


def part_of(text: str, name: str) -> re.Match[str]:
    """Return the part of a page that is generated under a name."""
    found = re.search(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", text, re.DOTALL)
    assert found is not None, f"there is no part <!-- {name} -->"
    return found
