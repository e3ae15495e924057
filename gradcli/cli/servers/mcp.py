"""The Model Context Protocol: each tool is the command of its name, run as a process of its own in the server's folder."""

import asyncio
import contextlib
import importlib
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from gradcli import __version__
from gradcli.cli import check, find, listings, studies
from gradcli.cli.listings import DOCUMENTS
from gradcli.cli.servers import end_on_signals, refuse_outside
from gradcli.errors import BadOption, GradcliError, OutOfTime, TooLarge
from gradcli.project.suite.config import find_suite_file, option_values, schema_of_option
from gradcli.report.brief_of_check import Brief, brief_of_error, first_lines
from gradcli.report.common import ErrorReport, error_report
from gradcli.report.encode import decode_document, encode, make_schema
from gradcli.report.suite import row_of_document
from gradcli.request.option_values import count_processors
from gradcli.request.options import Option, options_of_command

_MOST = 10  # checks in a result
_BEAT = 5.0  # seconds after which progress is reported where nothing else is
_GRACE = 30.0  # seconds that a command may take besides its limit: to start, and to end
_ORDER = ("fail", "error", "inconclusive", "pass")  # the worst first
_NOT_OFFERED = frozenset({  # options that write files, choose a form, read standard input, or run elsewhere
    "format", "json", "out", "plot", "size", "dpi", "direction", "quiet", "verbose", "color", "traceback", "patch", "save_point",
    "baseline", "update_baseline", "recorded", "allow_python", "list_only", "executor", "workers", "threads", "watch",
    "show", "no_steps", "fail_under", "timeout",
})  # fmt: skip
_TEXT, _TEXTS = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
_EITHER = {"anyOf": [_TEXT, _TEXTS]}


class Tool(NamedTuple):
    """The command of a tool, what it takes besides options, which parts of its document are returned, and words that it adds."""

    command: Callable[..., int]
    argument: str
    takes: Mapping[str, Any]
    required: bool = False
    returns: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


_ABOUT = {  # by the tool and the argument that is no option
    ("check", "target"): "An expression, file.py:name, several, or a folder; left out: the project's checks.",
    ("derive", "target"): "An expression, or file.py:name.",
    ("cost", "target"): "An expression, or file.py:name; left out with a model.",
    ("find", "paths"): "Python files, folders and modules; left out: the whole project.",
    ("explain", "kind"): "The kind of a finding or of a mistake; left out: all kinds.",
}
TOOLS = {
    "check": Tool(check.check, "target", _EITHER),
    "derive": Tool(studies.derive, "target", _TEXT, True, ("results", "findings"), ("--no-steps",)),
    "cost": Tool(studies.cost, "target", _TEXT, False, ("passes", "memory", "kept", "checkpoints", "notes")),
    "find": Tool(find.find, "paths", _TEXTS, False, ("gradients", "counts", "next")),
    "explain": Tool(listings.explain, "kind", _TEXT, False, ("kinds",)),
}
_CHECKS = {
    "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
    "required": ["verdict", "passed", "left_out", "checks"],
    "properties": {
        "verdict": {"enum": list(_ORDER), "description": "The worst verdict."},
        "passed": {"type": "integer", "description": "How many checks passed."},
        "left_out": {"type": "integer", "description": "How many others did not pass."},
        "checks": {"type": "array", "items": {}, "description": "Those that did not pass, or the only one."},
    },
}  # fmt: skip
INSTRUCTIONS = (
    "gradcli is the referee for gradients: it verifies a gradient that you wrote, says which mistake is in it, and derives "
    "the right one. Check each backward pass that you write or change: check with target file.py:f and grad (or backward, "
    "vjp, jac, ...) and at, then make the edit that it returns, and check again. Paths are relative to the server's folder."
)


def options_of_tool(command: str) -> dict[str, Option]:
    """Return the options of a command that its tool takes, by their names: the long names of the command line."""
    rows = (row for row in options_of_command(command) if not row.hidden and row.name not in _NOT_OFFERED)
    return {row.flag.removeprefix("--"): row for row in rows}


def describe_tools() -> list[types.Tool]:
    """Return the tools, with the schemas of their arguments and results."""
    found = []
    for name, tool in TOOLS.items():
        properties = {key: schema_of_option(row) for key, row in options_of_tool(name).items()}
        schema = {
            "type": "object", "additionalProperties": False,
            "properties": {tool.argument: {**tool.takes, "description": _ABOUT[name, tool.argument]}, **properties},
        } | ({"required": [tool.argument]} if tool.required else {})  # fmt: skip
        about = re.sub(r"\s*Formats: .*", "", " ".join((tool.command.__doc__ or "").split()))
        reads = name in ("find", "explain")
        hints = types.ToolAnnotations(read_only_hint=reads, destructive_hint=not reads, open_world_hint=False)
        found.append(
            types.Tool(
                name=name, description=about, input_schema=schema,
                output_schema=_output_schema(name), annotations=hints,
            )
        )  # fmt: skip
    return found


def _output_schema(name: str) -> dict[str, Any]:
    if name == "check":
        brief = make_schema(Brief, "gradcli.brief/1")
        items = {key: value for key, value in brief.items() if not key.startswith("$")}
        properties = _CHECKS["properties"] | {"checks": {**_CHECKS["properties"]["checks"], "items": items}}  # type: ignore[index, operator]
        return {**_CHECKS, "properties": properties, "$defs": brief["$defs"]}
    whole, kept = make_schema(_report_type(name), name), TOOLS[name].returns
    return whole | {"properties": {key: whole["properties"][key] for key in kept}, "required": list(kept)}


def _report_type(name: str) -> Any:
    module, kind = DOCUMENTS[name]
    return getattr(importlib.import_module(module), kind)


def command_of_call(name: str, arguments: Mapping[str, Any], seconds: float) -> list[str]:
    """Return the words of the command that a call asks for. Raises BadOption for an argument that the tool does not take."""
    tool, rows = TOOLS[name], options_of_tool(name)
    option_values(arguments, rows, (tool.argument,), f"the arguments of {name}", lambda key: None)
    given = arguments.get(tool.argument, [])
    words = [given] if isinstance(given, str) else given
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise BadOption(f"'{tool.argument}' takes a text, or a list of texts", do=_ABOUT[name, tool.argument])
    options = {rows[key].flag: _texts_after_flag(rows[key], raw) for key, raw in arguments.items() if key in rows}
    refuse_outside(Path(), words, (text for texts in options.values() for text in texts))
    if name == "check" and not words and (file := find_suite_file(Path.cwd())) is not None:
        refuse_outside(Path(), [], [f"@{file}"])
    limit = [f"--timeout={seconds:g}s"] * any(row.name == "timeout" for row in options_of_command(name))
    written = [f"{flag}={text}" if text else flag for flag, texts in options.items() for text in texts]
    return [name, "--format", "ndjson", *tool.words, *limit, *written, "--", *words]


def _texts_after_flag(row: Option, raw: Any) -> list[str]:
    """Return what the command line has after the flag of an option, each time that it is given; nothing after a flag alone."""
    if row.kind is bool:
        return [""] if raw else []
    if isinstance(raw, list):
        return raw if row.repeated else [",".join(raw)]
    return [str(raw)]


class ClientSession:
    """The calls of one client."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._free = asyncio.Semaphore(count_processors())  # so that calls at once do not slow each other

    async def list_tools(self, context: Any, params: Any) -> types.ListToolsResult:
        """Return the tools."""
        return types.ListToolsResult(tools=describe_tools())

    async def call(self, context: Any, params: Any) -> types.CallToolResult:
        """Run the command of a tool, and return what it found; an error of the request is a result, too."""
        if params.name not in TOOLS:
            return _error_result(f"there is no tool '{params.name}': there are {', '.join(TOOLS)}")
        try:
            words = command_of_call(params.name, params.arguments or {}, self._seconds)
            async with self._free, _Progress(context.session) as progress:
                found = await self._run_command(words, params.name, progress)
        except GradcliError as error:
            return _result_of_checks([brief_of_error(error_report(error), params.name, None)], 0)
        return found

    async def _run_command(self, words: Sequence[str], name: str, progress: "_Progress") -> types.CallToolResult:
        limit = None if name == "check" else self._seconds + _GRACE  # a suite has its limit for each check
        briefs: list[Brief] = []
        try:
            async with asyncio.timeout(limit), run_for_documents(words) as written:
                async for document in written:
                    if "error" in document or name == "check":
                        briefs.append(_brief_of_document(document, words[-1] if words[-2] == "--" else name))
                        await progress.report(briefs[-1].lines()[0])
                    else:
                        lines = first_lines(decode_document(_report_type(name), document).brief())
                        return _make_result(lines, {key: document[key] for key in TOOLS[name].returns}, is_error=False)
        except TimeoutError:
            says = f"{name} did not end within {limit:g} s"
            raise OutOfTime(says, do="ask for less, or start gradcli mcp with a longer --timeout") from None
        if not briefs:
            return _error_result(f"gradcli {name} ended without a result; its standard error says why")
        return _result_of_checks(briefs, sum(brief.verdict == "pass" for brief in briefs))


class _Progress:
    """Reports progress: what is done, and every few seconds that work goes on."""

    def __init__(self, session: Any) -> None:
        self._session, self._count = session, 0

    async def report(self, message: str) -> None:
        self._count += 1
        await self._session.report_progress(self._count, None, message)

    async def __aenter__(self) -> "_Progress":
        await self.report("started")
        self._beat = asyncio.create_task(self._report_regularly())
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._beat.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._beat

    async def _report_regularly(self) -> None:
        while True:
            await asyncio.sleep(_BEAT)
            await self.report("at work")


def _brief_of_document(document: dict[str, Any], asked: str) -> Brief:
    """Return the document of a check, or of an error, in brief; `asked` is what was asked for where it does not say so."""
    if "error" in document and "id" not in document:
        return brief_of_error(decode_document(ErrorReport, document), asked, None)
    name = str(document.get("id") or document["target"]["text"])
    return row_of_document(name, name, document, 0.0).brief()


def _result_of_checks(briefs: Sequence[Brief], passed: int) -> types.CallToolResult:
    """Return the result of checks: of several that did not pass the worst, of one alone all that is known in brief."""
    worst = sorted(briefs, key=lambda brief: _ORDER.index(brief.verdict))
    shown = briefs if len(briefs) == 1 else [brief for brief in worst if brief.verdict != "pass"]
    lines = briefs[0].lines() if len(briefs) == 1 else (
        f"{passed} of {len(briefs)} checks passed", *(brief.lines()[0] for brief in shown)
    )  # fmt: skip
    data = {
        "verdict": worst[0].verdict, "passed": passed, "left_out": max(0, len(shown) - _MOST),
        "checks": [encode(brief) for brief in shown[:_MOST]],
    }  # fmt: skip
    return _make_result(first_lines(lines), data, is_error=len(briefs) == 1 and briefs[0].verdict == "error")


def _make_result(lines: Sequence[str], data: dict[str, Any] | None, is_error: bool) -> types.CallToolResult:
    text = types.TextContent(type="text", text="\n".join(lines))
    return types.CallToolResult(content=[text], structured_content=data, is_error=is_error)


def _error_result(says: str) -> types.CallToolResult:
    return _make_result([f"ERROR {says}"], None, is_error=True)


# A command as a process of its own, whose documents are read as they come, and which can be ended at any time.

_LARGEST = 1 << 26  # bytes of a document
_PATIENCE = 5.0  # seconds in which a command ends that is told to
_RUNNING: set[asyncio.subprocess.Process] = set()


@asynccontextmanager
async def run_for_documents(argv: Sequence[str]) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """Run a command that writes a JSON document a line; at the end of the block it has ended, with all that it started."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "gradcli", *argv,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, limit=_LARGEST, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    _RUNNING.add(process)
    try:
        yield _read_documents(process.stdout)
    except BaseException:  # the call is cancelled, or its time is over
        terminate_command(process)
        raise
    finally:
        await asyncio.shield(_wait_for_end(process))
        _RUNNING.discard(process)


def end_all_commands() -> None:
    """Tell every command that runs to end, without waiting for it."""
    for process in _RUNNING:
        terminate_command(process)


def terminate_command(process: asyncio.subprocess.Process) -> None:
    """Send the signal on which the command's supervisor ends all that it started."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()


async def _read_documents(lines: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    while True:
        try:
            line = await lines.readline()
        except ValueError:  # it is longer than the limit
            raise TooLarge(f"the result is larger than {_LARGEST >> 20} MB", do="ask for fewer entries") from None
        if not line:
            return
        yield json.loads(line)


async def _wait_for_end(process: asyncio.subprocess.Process) -> None:
    """Wait until a process has ended, for some seconds; what is left of its group is killed, and what it wrote is discarded."""
    assert process.stdout is not None
    rest = asyncio.ensure_future(_discard_rest(process.stdout))  # a pipe that nobody reads stays open
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _PATIENCE)
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
    with contextlib.suppress(TimeoutError):  # a process outside of the group may have kept its end open
        await asyncio.wait_for(rest, _PATIENCE)


async def _discard_rest(lines: asyncio.StreamReader) -> None:
    while await lines.read(1 << 16):
        pass


def serve(seconds: float) -> None:
    """Serve one client on standard input and output until it ends; a check may take so many seconds."""

    async def answer_client() -> None:
        session = ClientSession(seconds)
        server = Server(
            "gradcli", version=__version__, instructions=INSTRUCTIONS,
            on_list_tools=session.list_tools, on_call_tool=session.call,
        )  # fmt: skip
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    end_on_signals(end_all_commands)
    asyncio.run(answer_client())
