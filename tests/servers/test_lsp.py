"""`gradcli lsp`, asked by the client of pygls."""

import asyncio
import difflib
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from gradcli.cli.servers.lsp import Server, edits_of_patch
from tests.conftest import HANG, ends, started
from tests.servers.conftest import below

pytestmark = [pytest.mark.slow, pytest.mark.repairs]
CLAIM = 9  # the line of `return x`, from 0
RIGHT, WRONG = "    return 2 * x", "    return x"


class Editor:
    """An editor with one project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = LanguageClient("editor", "1")
        self.shown: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        self.said: asyncio.Queue[str] = asyncio.Queue()
        for name, answer in (
            (types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, lambda params: self.shown.put_nowait(params)),
            (types.WINDOW_SHOW_MESSAGE, lambda params: self.said.put_nowait(params.message)),
            (types.WORKSPACE_APPLY_EDIT, lambda params: self._apply(params)),
        ):
            self.client.feature(name)(answer)

    def _apply(self, params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        self.make(params.edit)
        return types.ApplyWorkspaceEditResult(True)

    @property
    def server(self) -> int:
        return int(self.client._server.pid)  # type: ignore[union-attr]

    def document(self, name: str = "layers.py") -> types.TextDocumentIdentifier:
        return types.TextDocumentIdentifier((self.folder / name).as_uri())

    def open(self, name: str = "layers.py") -> None:
        text = (self.folder / name).read_text()
        item = types.TextDocumentItem(self.document(name).uri, "python", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def save(self, line: str | None = None, name: str = "layers.py") -> None:
        """Save a file, with another line in place of the claim's."""
        if line is not None:
            lines = (self.folder / name).read_text().splitlines()
            lines[CLAIM] = line
            (self.folder / name).write_text("\n".join(lines) + "\n")
            whole = types.TextDocumentContentChangeWholeDocument((self.folder / name).read_text())
            version = types.VersionedTextDocumentIdentifier(version=2, uri=self.document(name).uri)
            self.client.text_document_did_change(types.DidChangeTextDocumentParams(version, [whole]))
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(self.document(name)))

    async def until(self, holds: Callable[[types.PublishDiagnosticsParams], bool]) -> types.PublishDiagnosticsParams:
        """Return the first diagnostics for which something holds."""
        while not holds(found := await self.shown.get()):
            pass
        return found

    async def actions(self, line: int, name: str = "layers.py") -> dict[str, Any]:
        at = types.Range(types.Position(line, 0), types.Position(line, 1))
        found = await self.client.text_document_code_action_async(
            types.CodeActionParams(self.document(name), at, types.CodeActionContext([]))
        )
        return {action.title: action for action in found or ()}

    def make(self, edit: types.WorkspaceEdit) -> None:
        """Make an edit as an editor does: in the files, from the last line to the first."""
        made = {uri: list(edits) for uri, edits in (edit.changes or {}).items()}
        for change in edit.document_changes or ():
            if isinstance(change, types.TextDocumentEdit):
                made[change.text_document.uri] = list(change.edits)
        for uri, edits in made.items():
            path = Path(uri.removeprefix("file://"))
            text = path.read_bytes().decode() if path.exists() else ""
            for one in sorted(edits, key=lambda e: e.range.start.line, reverse=True):
                starts = [0]
                for line in text.splitlines(keepends=True):
                    starts.append(starts[-1] + len(line))
                ends = (one.range.start, one.range.end)
                start, end = (starts[p.line] + p.character if p.line < len(starts) else len(text) for p in ends)
                text = text[:start] + one.new_text + text[end:]
            path.write_bytes(text.encode())


@asynccontextmanager
async def editor(folder: Path) -> AsyncIterator[Editor]:
    one = Editor(folder)
    await one.client.start_io(sys.executable, "-m", "gradcli", "lsp", cwd=str(folder))
    await one.client.initialize_async(
        types.InitializeParams(capabilities=types.ClientCapabilities(), root_uri=folder.as_uri())
    )
    one.client.initialized(types.InitializedParams())
    one.open()
    try:
        yield one
    finally:
        await one.client.shutdown_async(None)
        one.client.exit(None)
        await one.client.stop()


def edited(folder: Path, does: Callable[[Editor], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(HANG), editor(folder) as one:
            await does(one)

    asyncio.run(run())


def fails(found: types.PublishDiagnosticsParams) -> bool:
    return [d.severity for d in found.diagnostics] == [types.DiagnosticSeverity.Error]


def test_a_saved_mistake_is_shown_repaired_and_passes(project: Path) -> None:
    async def does(one: Editor) -> None:
        one.save()
        shown = await one.until(fails)
        assert shown.uri == one.document().uri
        (found,) = shown.diagnostics
        assert found.range.start.line == CLAIM and (found.code, found.source) == ("factor", "gradcli")
        assert found.message.startswith(
            "FAIL layers.py:10 energy dx: a factor 2 too small | edit: return 2 * x | again: "
        )
        hover = await one.client.text_document_hover_async(types.HoverParams(one.document(), types.Position(CLAIM, 4)))
        assert hover is not None and "| `x[2]` | 3 | 6 |" in hover.contents.value  # type: ignore[union-attr]
        actions = await one.actions(CLAIM)
        assert {"Apply the repair", "Explain 'factor'"} <= actions.keys()
        one.make(actions["Apply the repair"].edit)
        assert (project / "layers.py").read_text().splitlines()[CLAIM] == RIGHT
        one.save()
        assert (await one.until(lambda shown: not shown.diagnostics)).uri == one.document().uri
        one.save("    return 'x'")  # a repair of lines that are no longer there is not offered
        await one.until(fails)
        assert "Apply the repair" not in await one.actions(CLAIM)

    edited(project, does)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"), ("a\nb", "a\nB"), ("a\nb", "a\nb\nc\n"), ("a\r\nb\r\n", "a\r\nB\r\n"), ("a\nb\n", "b\n"),
        ("".join(f"{k}\n" for k in range(40)), "".join(f"{k if k % 19 else -k - 1}\n" for k in range(40))), ("-a\n+b\n", "+b\n"),
    ],
)  # fmt: skip
def test_a_patch_is_edits_of_the_document(before: str, after: str, tmp_path: Path) -> None:
    patch = "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True), "a/f", "b/f"
        )
    )
    edits = edits_of_patch(patch, before.splitlines(keepends=True))
    (tmp_path / "f").write_bytes(before.encode())
    Editor(tmp_path).make(types.WorkspaceEdit({(tmp_path / "f").as_uri(): edits}))
    assert (tmp_path / "f").read_bytes() == after.encode()
    assert edits_of_patch(patch, ["other\n", *before.splitlines(keepends=True)]) == []


def test_a_module_that_is_imported_belongs_to_the_check_and_one_that_is_not_does_not(project: Path) -> None:
    async def does(one: Editor) -> None:
        one.save(RIGHT)
        await one.until(lambda shown: not shown.diagnostics)
        (project / "activations.py").write_text("def square(x):\n    return x * x * x\n")
        one.save(name="ends.py")
        one.save(name="activations.py")
        assert fails(await one.until(lambda shown: bool(shown.diagnostics)))

    edited(project, does)


def test_a_check_is_added_where_there_is_none(project: Path) -> None:
    async def does(one: Editor) -> None:
        lenses = await one.client.text_document_code_lens_async(types.CodeLensParams(one.document()))
        assert [(lens.range.start.line, lens.command.title) for lens in lenses or ()] == [  # type: ignore[union-attr]
            (8, "check"), (16, "check"), (24, "add a check"),
        ]  # fmt: skip
        actions = await one.actions(24)
        one.make(actions["Add a check for this gradient"].edit)
        assert '# id = "ramp_grad"' in (project / "gradcli.toml").read_text()
        text = (project / "gradcli.toml").read_text().partition("# Checks in comments")[0]
        (project / "gradcli.toml").write_text(
            f'{text}\n[[check]]\nid = "ramp"\ntarget = "layers.py:ramp"\ngrad = "ramp_grad"\nat = "x=1"\n'
        )
        one.save(name="gradcli.toml")
        await one.until(fails)
        lenses = await one.client.text_document_code_lens_async(types.CodeLensParams(one.document()))
        assert [lens.command.title for lens in lenses or ()] == ["check"] * 3  # type: ignore[union-attr]
        command = types.ExecuteCommandParams("gradcli.check", [one.document().uri, ["ramp"]])
        await one.client.workspace_execute_command_async(command)

    edited(project, does)


def test_the_first_check_of_a_project_writes_its_suite(project: Path) -> None:
    (project / "gradcli.toml").unlink()

    async def does(one: Editor) -> None:
        command = types.ExecuteCommandParams("gradcli.addCheck", [one.document().uri, 25])
        await one.client.workspace_execute_command_async(command)
        while not (project / "gradcli.toml").exists():
            await asyncio.sleep(0.02)
        assert (project / "gradcli.toml").read_text().startswith('paths = ["."]\n')

    edited(project, does)


def test_a_suite_that_cannot_be_read_is_said_and_a_kind_is_explained(project: Path) -> None:
    async def does(one: Editor) -> None:
        (project / "gradcli.toml").write_text("[[check]]\ntarget = \n")
        one.save(name="gradcli.toml")
        assert "gradcli.toml is not valid TOML" in await one.said.get()
        await one.client.workspace_execute_command_async(types.ExecuteCommandParams("gradcli.explain", ["factor"]))
        assert (await one.said.get()).startswith("factor: ")

    edited(project, does)


def test_many_saves_leave_no_process_and_the_newest_wins(project: Path) -> None:
    async def does(one: Editor) -> None:
        one.save(WRONG)
        await one.until(fails)
        await asyncio.sleep(0)
        before = memory(one.server)
        for k in range(300):
            one.save(RIGHT if k % 2 else WRONG)
            if k % 20 == 0:
                await asyncio.sleep(0.05)
        one.save(RIGHT)
        await one.until(lambda shown: not shown.diagnostics)
        while len(below(one.server)) > 2:  # a worker, and its process for sympy
            await asyncio.sleep(0.05)
        assert memory(one.server) < before + 20_000
        hover = await one.client.text_document_hover_async(types.HoverParams(one.document(), types.Position(8, 4)))
        assert hover is not None and hover.contents.value.startswith("**PASS**")  # type: ignore[union-attr]

    edited(project, does)


def memory(pid: int) -> int:
    """Return how many kilobytes a process holds."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def test_a_signal_ends_the_server_and_its_worker(project: Path) -> None:
    with started("lsp", cwd=project) as running:
        body = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId":null,"rootUri":null,"capabilities":{}}}'
        running.stdin.write(f"Content-Length: {len(body)}\r\n\r\n{body}")
        running.stdin.flush()
        assert running.stdout.readline().startswith("Content-Length")
        while len(children := below(running.pid)) < 2 and running.poll() is None:
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        assert running.wait() == 130 and all(map(ends, children))


def test_a_message_that_cannot_be_sent_is_one_error() -> None:
    sent = []

    class Closed:
        def write(self, data: bytes) -> None:
            sent.append(data)
            raise ValueError("write to closed file")

    server = Server("gradcli", "1")
    server.protocol.set_writer(Closed())
    server.text_document_publish_diagnostics(types.PublishDiagnosticsParams("file:///layers.py", []))
    assert len(sent) == 1
