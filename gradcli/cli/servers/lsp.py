"""The Language Server Protocol: the checks of a saved file as diagnostics, with repairs, and commands above gradients."""

import asyncio
import dataclasses
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInternalError
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from gradcli import __version__
from gradcli.classes import dataclass
from gradcli.cli.find import choose_suite_file, declared_checks
from gradcli.cli.servers import end_on_signals
from gradcli.errors import GradcliError
from gradcli.project.discovery.project import HandGradient
from gradcli.project.discovery.proposal import check_texts as proposed
from gradcli.project.discovery.proposal import suite_text as proposed_suite
from gradcli.project.discovery.reader import find_gradients
from gradcli.project.suite.config import CheckNames, Suite, SuiteCheck, find_suite
from gradcli.project.suite.executors import Checker
from gradcli.project.suite.selection import checks_of_files
from gradcli.report.brief_of_check import Brief
from gradcli.report.explain import SITE, ExplainReport, read_explanations
from gradcli.report.suite import CheckRow

CHECK, ADD, EXPLAIN = "gradcli.check", "gradcli.addCheck", "gradcli.explain"
_SEVERITIES = {
    "fail": types.DiagnosticSeverity.Error, "error": types.DiagnosticSeverity.Error,
    "inconclusive": types.DiagnosticSeverity.Warning,
}  # fmt: skip
_END = 10_000  # a column beyond the end of a line, which editors take for the end


@dataclass(frozen=True)
class Shown:
    """What is shown of one check: its row, and the file and the line, counted from 0, at which it is shown."""

    row: CheckRow
    brief: Brief
    uri: str
    line: int

    @property
    def range(self) -> types.Range:
        """The line."""
        return _range_of_lines(self.line, self.line, _END)

    def diagnostic(self) -> types.Diagnostic:
        """Return the diagnostic: the check in brief, with the kind of mistake as its code."""
        kind = self.brief.kind
        page = None if kind is None else types.CodeDescription(f"{SITE}/gradcli/report/explanations/{kind}.md")
        severity, text = _SEVERITIES[self.brief.verdict], "\n".join(self.brief.lines())
        return types.Diagnostic(self.range, text, severity, kind, page, "gradcli")

    def hover(self) -> str:
        """Return what is shown over the line, as Markdown: the verdict, wrong entries with right values, the right gradient."""
        brief = self.brief
        rows = "".join(f"| `{w.entry}` | {w.claimed:.7g} | {w.right:.7g} |\n" for w in brief.wrong)
        table = f"\n\n| entry | claimed | right |\n| --- | --- | --- |\n{rows}" if rows else ""
        code = "".join(f"\n\nRight by `{x}`:\n```python\n{code}\n```" for x, code in brief.right.items())
        edit = "\n\n```diff\n" + "\n".join(brief.changed) + "\n```" if brief.changed else ""
        return f"**{self.row.word[0]}** `{brief.name}`: {brief.cause or brief.says}{table}{edit}{code}"


def place_row(row: CheckRow, suite: Suite) -> Shown:
    """Return where a row is shown: at its edit or claim, else at the top of the file that declares the check."""
    config = None if suite.path is None else suite.path.name
    file, line = next(iter(row.places(config)), (row.target.partition(":")[0], None))
    return Shown(row, row.brief(), _path_to_uri(suite.folder / file), (line or 1) - 1)


def _path_to_uri(path: Path) -> str:
    return str(from_fs_path(str(path.resolve())))


def _uri_to_path(uri: str) -> Path:
    return Path(to_fs_path(uri) or "").resolve()


def _range_of_lines(first: int, last: int, column: int = 0) -> types.Range:
    return types.Range(types.Position(first, 0), types.Position(last, column))


_HUNK = re.compile(r"^@@ -(?P<first>\d+)(?:,\d+)? \+\d+(?:,\d+)? @@.*\n(?P<lines>(?:[-+ \\].*\n?)*)", re.MULTILINE)


def edits_of_patch(patch: str, lines: Sequence[str]) -> list[types.TextEdit]:
    """Return a unified diff of one file as edits of its lines; none where one of its lines is no longer as it was."""
    edits = []
    for hunk in _HUNK.finditer(patch):
        parts: list[tuple[str, str]] = []
        for text in re.findall(r"[^\n]*\n|[^\n]+", hunk["lines"]):
            if text[0] == "\\":  # the line before has no end
                parts[-1] = (parts[-1][0], parts[-1][1].removesuffix("\n"))
            else:
                parts.append((text[0], text[1:]))
        old, new = ([text for sign, text in parts if sign in (" ", kept)] for kept in "-+")
        start = int(hunk["first"]) - 1
        if list(lines[start : start + len(old)]) != old:
            return []
        edits.append(types.TextEdit(_range_of_lines(start, start + len(old)), "".join(new)))
    return edits


class Editor:
    """One editor: the last row of each check, and the gradients of its files. All but `_run_checks` belongs to the event loop."""

    def __init__(self, server: Any, seconds: float) -> None:
        self._server, self._seconds = server, seconds
        self._thread = ThreadPoolExecutor(1, "checks")  # the one thread that starts workers
        self._checker = self._thread.submit(Checker)
        self._newest = 0
        self._shown: dict[tuple[Path, str], Shown] = {}
        self._gradients: dict[tuple[Path, int, int], tuple[HandGradient, ...]] = {}

    def close(self) -> None:
        """End the check that runs, and the worker."""
        self._newest += 1
        self._checker.result().stop()
        self._thread.submit(lambda: self._checker.result().close())
        self._thread.shutdown()

    # What the editor says.

    async def saved(self, params: types.DidSaveTextDocumentParams) -> None:
        """Run the checks that depend on a saved file; the newest save wins."""
        path = _uri_to_path(params.text_document.uri)
        await self._start_checks(path, lambda suite: checks_of_files(suite, suite.checks, [path]))

    async def check(self, uri: str, ids: list[str]) -> None:
        """Run the checks of a file with these ids."""
        await self._start_checks(_uri_to_path(uri), lambda suite: [c for c in suite.checks if c.id in ids])

    async def _start_checks(self, path: Path, select: Callable[[Suite], Sequence[SuiteCheck]]) -> None:
        self._newest += 1
        number, loop = self._newest, asyncio.get_running_loop()
        if self._checker.done():
            self._checker.result().stop()

        def show(suite: Suite, row: CheckRow | None) -> None:
            loop.call_soon_threadsafe(self._show_row, suite, row)

        wanted = lambda: number == self._newest
        try:
            await loop.run_in_executor(self._thread, self._run_checks, path, select, wanted, show)
        except GradcliError as error:
            self._show_message(f"{error.what}; {error.do}" if error.do else error.what, types.MessageType.Error)

    def _run_checks(
        self, path: Path, select: Callable[[Suite], Sequence[SuiteCheck]], wanted: Callable[[], bool],
        show: Callable[[Suite, CheckRow | None], None],
    ) -> None:  # fmt: skip
        if not wanted():
            return
        suite = find_suite(path.parent)
        if suite is None:
            return
        show(suite, None)
        checks = [self._limited(check) for check in select(suite)]
        for row in self._checker.result().rows(suite, checks, wanted):
            show(suite, row)

    def _limited(self, check: SuiteCheck) -> SuiteCheck:
        """Return a check with the server's limit of time, where it has none of its own."""
        options = check.ask.options
        limited = dataclasses.replace(options, timeout=options.timeout or self._seconds)
        return dataclasses.replace(check, ask=dataclasses.replace(check.ask, options=limited))

    def _show_row(self, suite: Suite, row: CheckRow | None) -> None:
        """Show a row in place of the last one of its check; without one, forget the checks that the suite no longer has."""
        ids = {check.id for check in suite.checks} - ({row.id} if row is not None else set())
        gone = [key for key in self._shown if key[0] == suite.folder and key[1] not in ids]
        changed = {self._shown.pop(key).uri for key in gone}
        if row is not None:
            one = place_row(row, suite)
            self._shown[suite.folder, row.id] = one
            changed.add(one.uri)
        for uri in changed:
            found = [x.diagnostic() for x in self._shown.values() if x.uri == uri and x.brief.verdict in _SEVERITIES]
            self._server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found))

    # What the editor asks.

    def hover(self, params: types.HoverParams) -> types.Hover | None:
        """Return what is known of the checks that are shown at a line."""
        at = params.position.line
        found = list(self._shown_at_lines(params.text_document.uri, at, at))
        text = "\n\n---\n\n".join(one.hover() for one in found)
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text), found[0].range) if found else None

    def _shown_at_lines(self, uri: str, first: int, last: int) -> Iterator[Shown]:
        path = _uri_to_path(uri)
        yield from (one for one in self._shown.values() if _uri_to_path(one.uri) == path and first <= one.line <= last)

    async def actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """Return what can be done at these lines: apply a repair, have a kind explained, add a check."""
        uri, first, last = params.text_document.uri, params.range.start.line, params.range.end.line
        found: list[types.CodeAction] = []
        for one in self._shown_at_lines(uri, first, last):
            edits: list[types.TextEdit] = []
            if one.brief.verdict in _SEVERITIES:
                edits = edits_of_patch(one.brief.edit or "", self._server.workspace.get_text_document(uri).lines)
            if edits:
                about, kind, edit = [one.diagnostic()], types.CodeActionKind.QuickFix, types.WorkspaceEdit({uri: edits})
                found.append(types.CodeAction("Apply the repair", kind, about, is_preferred=True, edit=edit))
            if one.brief.kind is not None:
                command = types.Command(f"Explain '{one.brief.kind}'", EXPLAIN, arguments=[one.brief.kind])
                found.append(types.CodeAction(command.title, command=command))
        for gradient in await self._gradients_of_file(uri):
            if not gradient.checked_by and first <= gradient.line - 1 <= last:
                add = await asyncio.to_thread(self._edit_of_addition, _uri_to_path(uri), gradient)
                kind = types.CodeActionKind.RefactorRewrite
                found.append(types.CodeAction("Add a check for this gradient", kind, edit=add))
        return found

    async def lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        """Return a command above each hand-written gradient: to check it, or to add its check."""
        uri, found = params.text_document.uri, []
        for gradient in await self._gradients_of_file(uri):
            command = (
                types.Command("check", CHECK, arguments=[uri, list(gradient.checked_by)]) if gradient.checked_by
                else types.Command("add a check", ADD, arguments=[uri, gradient.line])
            )  # fmt: skip
            found.append(types.CodeLens(_range_of_lines(gradient.line - 1, gradient.line - 1), command))
        return found

    async def _gradients_of_file(self, uri: str) -> tuple[HandGradient, ...]:
        """Return the gradients of a file as it is on disk; none where it, or the suite, cannot be read."""
        try:
            return await asyncio.to_thread(self._read_gradients, _uri_to_path(uri))
        except (GradcliError, OSError):  # which is said when the file is saved
            return ()

    def _read_gradients(self, path: Path) -> tuple[HandGradient, ...]:
        """Read a file once for each of its versions and those of its suite."""
        suite = find_suite(path.parent)
        declared = 0 if suite is None or suite.path is None else suite.path.stat().st_mtime_ns
        key = (path, path.stat().st_mtime_ns, declared)
        if key not in self._gradients:
            found = {key: find_gradients([str(path)], declared_checks(suite)).gradients}
            self._gradients = {old: x for old, x in self._gradients.items() if old[0] != path} | found
        return self._gradients[key]

    async def add(self, uri: str, line: int) -> None:
        """Add a check for the gradient that is defined at a line."""
        for gradient in await self._gradients_of_file(uri):
            if gradient.line == line:
                edit = await asyncio.to_thread(self._edit_of_addition, _uri_to_path(uri), gradient)
                self._server.workspace_apply_edit(types.ApplyWorkspaceEditParams(edit, "Add a check"))

    def _edit_of_addition(self, path: Path, gradient: HandGradient) -> types.WorkspaceEdit:
        """Return the edit that adds the check that `gradcli init` proposes to the suite, or writes a suite with it."""
        suite = find_suite(path.parent)
        folder = suite.folder if suite is not None else Path(self._server.workspace.root_path or path.parent).resolve()
        place, is_there = choose_suite_file(folder)
        table = "tool.gradcli" if place.name == "pyproject.toml" else ""
        one = dataclasses.replace(gradient, file=Path(os.path.relpath(path, folder)).as_posix())
        text = place.read_text(encoding="utf-8-sig") if place.exists() else ""
        if is_there:
            name = CheckNames(check.id for check in (() if suite is None else suite.checks)).of(one.name)
            added = "\n\n".join(proposed([one], table, names=[name])) + "\n"
        else:
            added = proposed_suite([one], ["."], table)
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        last = text.split("\n")
        end = types.Position(len(last) - 1, len(last[-1]))
        changes: list[Any] = [] if place.exists() else [types.CreateFile(_path_to_uri(place))]
        document = types.OptionalVersionedTextDocumentIdentifier(_path_to_uri(place))
        changes.append(types.TextDocumentEdit(document, [types.TextEdit(types.Range(end, end), gap + added)]))
        return types.WorkspaceEdit(document_changes=changes)

    def explain(self, kind: str) -> None:
        """Say what a kind means, and what to do."""
        found = tuple(row for row in read_explanations() if row.kind == kind)
        self._show_message("\n".join(ExplainReport(found).brief()), types.MessageType.Info)

    def _show_message(self, text: str, kind: types.MessageType) -> None:
        self._server.window_show_message(types.ShowMessageParams(kind, text))


class Server(LanguageServer):  # type: ignore[misc]
    """A server that does not report by a message that a message could not be sent, as that one could not be sent either."""

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Show the editor an error, but for one of sending, which is on standard error."""
        if source is not JsonRpcInternalError:
            super().report_server_error(error, source)


def serve(seconds: float) -> None:
    """Serve one editor on standard input and output until it ends; a check may take so many seconds."""
    given, written = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the protocol's streams are nobody else's
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    server = Server("gradcli", __version__)
    editor = Editor(server, seconds)
    saves = types.SaveOptions(include_text=False)
    for name, answer, options in (
        (types.TEXT_DOCUMENT_DID_SAVE, editor.saved, saves), (types.TEXT_DOCUMENT_HOVER, editor.hover, None),
        (types.TEXT_DOCUMENT_CODE_ACTION, editor.actions, None), (types.TEXT_DOCUMENT_CODE_LENS, editor.lenses, None),
    ):  # fmt: skip
        server.feature(name, options)(partial(answer))  # which pygls marks; a method cannot be
    for name, run in ((CHECK, editor.check), (ADD, editor.add), (EXPLAIN, editor.explain)):
        server.command(name)(partial(run))
    end_on_signals(editor.close)
    try:
        server.start_io(os.fdopen(given, "rb"), os.fdopen(written, "wb"))
    finally:
        editor.close()
