"""`gradcli mcp`, asked by the client of the protocol's own Python SDK."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from gradcli.cli.servers import mcp as server
from gradcli.errors import TooLarge
from gradcli.request.options import options_of_command
from tests.conftest import HANG, ends, started
from tests.servers.conftest import below

pytestmark = [pytest.mark.slow, pytest.mark.repairs]
POINT = "x=[1.0, 2.0]"
Calls = Callable[[Client], Awaitable[None]]


def client(folder: Path, *words: str) -> Client:
    """Return a client of a server that was started in a folder."""
    command = [sys.executable, "-m", "gradcli", "mcp", *words]
    return Client(stdio_client(StdioServerParameters(command=command[0], args=command[1:], cwd=folder)))


def asked(folder: Path, calls: Calls, *words: str) -> None:
    """Make calls, each of which the client holds to the schemas of the server."""

    async def run() -> None:
        async with asyncio.timeout(HANG), client(folder, *words) as one:
            await calls(one)

    asyncio.run(run())


def text(result: Any) -> list[str]:
    (content,) = result.content
    lines: list[str] = content.text.splitlines()
    assert len(lines) <= 10
    return lines


def test_tools_are_the_commands_with_the_options_of_the_table() -> None:
    listed = {tool.name: tool for tool in server.describe_tools()}
    assert [*listed] == ["check", "derive", "cost", "find", "explain"]
    for tool in listed.values():
        Draft202012Validator.check_schema(tool.input_schema)
        Draft202012Validator.check_schema(tool.output_schema)
        assert tool.input_schema["type"] == tool.output_schema["type"] == "object"
        assert tool.description and "Formats:" not in tool.description
        assert all(about["description"] for about in tool.input_schema["properties"].values())
    helps = {row.flag.removeprefix("--"): row.help for row in options_of_command("check")}
    for key, about in listed["check"].input_schema["properties"].items():
        assert key == "target" or about["description"] == helps[key]
    assert {"at", "grad", "backward", "select", "allow", "stress"} <= listed["check"].input_schema["properties"].keys()


def test_no_tool_writes_files_or_reads_standard_input() -> None:
    assert not {"out", "plot", "patch", "save-point", "update-baseline", "allow-python", "executor"} & {
        key for tool in server.describe_tools() for key in tool.input_schema["properties"]
    }


def test_a_wrong_gradient_has_its_cause_edit_command_and_next_step(project: Path) -> None:
    async def calls(one: Client) -> None:
        asks = {"target": "layers.py:energy", "grad": "energy_grad", "at": POINT}
        result = await one.call_tool("check", asks)
        assert not result.is_error
        first, *_ = text(result)
        assert first.startswith(
            "FAIL layers.py:10 layers.py:energy dx: a factor 2 too small | edit: return 2 * x | again: "
        )
        (found,) = result.structured_content["checks"]
        assert (found["verdict"], found["file"], found["line"], found["kind"]) == ("fail", "layers.py", 10, "factor")
        assert found["wrong"][0] == {"entry": "x[1]", "claimed": 2.0, "right": 4.0}
        assert "-    return x\n+    return 2 * x\n" in found["edit"]
        assert found["again"].startswith("gradcli check layers.py:energy --at 'x=[1.0, 2.0]' --grad energy_grad")
        assert found["next"] == "make the edit, and run the check again"
        (project / "layers.py").write_text(
            (project / "layers.py").read_text().replace("return x\n", "return 2 * x\n", 1)
        )
        again = await one.call_tool("check", asks)
        assert again.structured_content["verdict"] == "pass"
        assert text(again)[0].startswith("PASS layers.py:energy: the claimed gradient is right")

    asked(project, calls)


def test_the_suite_is_checked_with_progress_for_each_check(project: Path) -> None:
    said: list[tuple[float, str]] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        said.append((progress, message or ""))

    async def calls(one: Client) -> None:
        result = await one.call_tool("check", {}, progress_callback=heard)
        assert text(result)[0] == "1 of 2 checks passed"
        assert result.structured_content["passed"] == 1
        assert [check["name"] for check in result.structured_content["checks"]] == ["energy"]
        one_of_them = await one.call_tool("check", {"select": "wave"})
        assert one_of_them.structured_content["verdict"] == "pass"

    asked(project, calls)
    messages = [message for _, message in said]
    assert [m.split(":")[0] for m in messages if "energy" in m or "wave" in m] == ["FAIL layers.py", "PASS wave"]
    assert [count for count, _ in said] == sorted({count for count, _ in said})


def test_other_tools_answer(project: Path) -> None:
    async def calls(one: Client) -> None:
        derived = await one.call_tool(
            "derive", {"target": "sum((X@w - y)**2)", "shapes": "X: m n; w: n; y: m", "wrt": "w"}
        )
        assert text(derived) == ["gradient by w: 2*(X.T@(X@w - y))"]
        (by_w,) = derived.structured_content["results"]
        assert "def gradient" in by_w["code"]["numpy"] and by_w["steps"] == []
        cost = await one.call_tool("cost", {"target": "sum(tanh(W@x)**2)", "shapes": "W: 3 4; x: 4"})
        assert cost.structured_content["passes"][0]["name"] == "f"
        found = await one.call_tool("find", {})
        assert found.structured_content["counts"] == {"found": 3, "checked": 2}
        assert text(found)[1].startswith("layers.py:25 ramp_grad: ")
        explained = await one.call_tool("explain", {"kind": "factor"})
        assert text(explained)[0].startswith("factor: ")
        wrong = await one.call_tool("derive", {"target": "x**2", "answer": "x"})
        assert not wrong.is_error and text(wrong)[0].startswith("FAIL ")

    asked(project, calls)


REFUSED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("check", {"tarket": "x**2"}, "did you mean 'target'?"),
    ("check", {"target": "x**2", "rtol": "much"}, "'rtol' takes a number"),
    ("check", {"target": "x**2", "out": "report.json"}, "unknown key 'out'"),
    ("check", {"target": {"file": "layers.py"}}, "'target' takes a text, or a list of texts"),
    ("check", {"target": "x**2", "wrt": "--allow-python", "at": "x=1"}, "--allow-python"),
    ("check", {"target": "log(x", "at": "x=1"}, "ERROR log(x: "),
    ("check", {"target": "../outside.py:f"}, "lies outside of"),
    ("check", {"target": "x**2", "grad": "../outside.py:f"}, "lies outside of"),
    ("check", {"target": "x", "at": "x=@../x.npy"}, "lies outside of"),
    ("check", {"target": "os:system"}, "no module below"),
    ("find", {"paths": [".."]}, "lies outside of"),
    ("explain", {"kind": "fakter"}, "did you mean 'factor'?"),
    ("derive", {}, "Missing argument"),
    ("sweep", {}, "there is no tool 'sweep'"),
)


def test_bad_arguments_are_results_that_say_what_to_write(project: Path) -> None:
    async def calls(one: Client) -> None:
        for name, arguments, says in REFUSED:
            result = await one.call_tool(name, arguments)
            assert result.is_error, arguments
            assert says in "\n".join(text(result)), (arguments, text(result))

    asked(project, calls)


def test_a_suite_of_a_folder_above_is_outside(project: Path) -> None:
    (project / "inner").mkdir()

    async def calls(one: Client) -> None:
        result = await one.call_tool("check", {})
        assert result.is_error and "lies outside of" in text(result)[0]

    asked(project / "inner", calls)


def test_a_target_that_ends_its_process_or_takes_too_long_is_a_result(project: Path) -> None:
    async def calls(one: Client) -> None:
        ended = await one.call_tool("check", {"target": "ends.py:f", "at": "x=1.0"})
        assert ended.is_error and "ended with exit status 3" in text(ended)[0]
        assert ended.structured_content["checks"][0]["line"] == 5
        late = await one.call_tool("check", {"target": "ends.py:never", "at": "x=1.0"})
        assert "time is up after 2 s" in text(late)[0]
        assert late.structured_content["verdict"] == "inconclusive"
        alive = await one.call_tool("explain", {"kind": "kink"})
        assert not alive.is_error

    asked(project, calls, "--timeout", "2s")


def test_a_cancelled_call_ends_all_that_it_started(project: Path) -> None:
    async def calls(one: Client) -> None:
        await one.call_tool("explain", {"kind": "kink"})
        own = {pid for pid in below_this() if "gradcli" in command(pid)}
        call = asyncio.create_task(one.call_tool("check", {"target": "ends.py:never", "at": "x=1.0"}))
        while not (project / "began.txt").exists():
            await asyncio.sleep(0.02)
        assert len({pid for pid in below_this() if "gradcli" in command(pid)}) > len(own)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        while {pid for pid in below_this() if "gradcli" in command(pid)} != own:
            await asyncio.sleep(0.02)
        assert not (await one.call_tool("explain", {"kind": "kink"})).is_error

    asked(project, calls)


def below_this() -> set[int]:
    return below(os.getpid())


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


INITIALIZE = (
    '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, '
    '"clientInfo": {"name": "test", "version": "1"}}}\n'
)
CALL = (
    '{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'
    '{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "check", "arguments": {"target": "ends.py:never", '
    '"at": "x=1.0"}}}\n'
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_with_what_it_runs(number: signal.Signals, project: Path) -> None:
    with started("mcp", cwd=project) as running:
        running.stdin.write(INITIALIZE)
        running.stdin.flush()
        assert "gradcli" in running.stdout.readline()
        running.stdin.write(CALL)
        running.stdin.flush()
        while not (project / "began.txt").exists() and running.poll() is None:
            time.sleep(0.02)
        children = below(running.pid)
        running.send_signal(number)
        assert running.wait() == 128 + number
        assert len(children) > 1 and all(map(ends, children))


def test_what_is_no_message_is_survived_and_the_end_of_the_input_ends_it(project: Path) -> None:
    with started("mcp", cwd=project) as running:
        running.stdin.write(f"garbage\n{INITIALIZE}")
        running.stdin.close()
        said = running.stdout.read()
        assert '"id":1' in said.replace(" ", "") and running.wait() == 0


def test_a_result_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_LARGEST", 1 << 10)

    async def run() -> None:
        async with server.run_for_documents(
            ["check", "sum(x**2)", "--shapes", "x: 100", "--format", "ndjson"]
        ) as found:
            with pytest.raises(TooLarge, match="the result is larger than"):
                await anext(found)

    asyncio.run(run())
