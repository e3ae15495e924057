"""What happens around the ranks of a program: failures, requests that cannot be met, references, suites, JAX."""

import json
import multiprocessing
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.errors import GradcliError
from gradcli.words import Verdict
from tests.conftest import ends, started
from tests.loaded import Loaded
from tests.rows import for_rows
from tests.servers.conftest import below

pytest.importorskip("torch.distributed")
HERE = Path(__file__).parent
FAULTS = HERE / "faults.py"
X = np.array([1.0, 2.0, 3.0, 4.0])
pytestmark = pytest.mark.slow


def check(name: str, at: Any, **options: Any) -> Any:
    given = {"ranks": 2, "rank_timeout": 20, **options}
    return gradcli.check(f"{FAULTS}:{name}", at, **{key: x for key, x in given.items() if x is not None})


@for_rows(
    ("name", "options", "says"),
    [
        ("raises", {}, r"rank 0 .*; rank 1 raises ValueError: no \(.*faults.py:17\)"),
        ("ends", {}, r"rank 1 ended with exit status 3"),
        ("waits", {"rank_timeout": 3}, r"rank 0 waits in all_reduce \(.*faults.py:11: dist.all_reduce\(y\)\); rank 1 returns \(limit: 3 s\)"),
        ("waits_in_backward", {"rank_timeout": 3}, r"rank 0 waits in all_reduce \(.*: dist.all_reduce\(ybar\)\); rank 1 returns"),
        ("all_wait", {"rank_timeout": 3}, r"(every rank|rank \d) raises RuntimeError: Timed out waiting"),
        ("shapes", {"loss": "sum"}, r"rank 0 returns 1 numbers; rank 1 returns 2 numbers"),
        ("differ", {}, r"the ranks return different values: 10 on rank 0, 20 on rank 1"),
        ("energy", {"shard": "y: 0"}, r"shard= names 'y', which is not an input"),
        ("energy", {"shard": "x: 1"}, r"shard= cuts x along axis 1, and it has shape \(4,\)"),
        ("energy", {"shard": "x"}, r"shard= does not read 'x'"),
        ("energy", {"shard": "x: 0", "ranks": 3}, r"axis 0 of x has 4 entries, which 3 ranks cannot share equally"),
        ("energy", {"shard": f"{FAULTS}:changed"}, r"what the function of shard= returns for x is not each entry of it"),
        ("energy", {"shard": f"{FAULTS}:gap"}, r"what the function of shard= returns for x is not each entry of it"),
        ("energy", {"shard": f"{FAULTS}:text"}, r"every rank: the function of shard= returns str for x"),
        ("energy", {"shard": "nofile.py:place"}, r"every rank: there is no file nofile.py"),
        ("Layer", {}, r"linear.weight has the same values on all ranks"),
        ("energy", {"shard": ["x: 0"]}, r'shard= takes "W: 1, b: 0" or a function, not'),
        ("energy", {"shard": "x: 0, x: 0"}, r"shard= names 'x' twice"),
        ("energy", {"wrt": "x.rank0"}, r"wrt= names x on some ranks alone"),
        ("energy", {"reference": f"{FAULTS}:half"}, r"the ranks compute 30, and the reference .* 15"),
        ("energy", {"ranks": 1}, r"ranks= takes a whole number from 2 to 64, not 1"),
        ("energy", {"ranks": None, "rank_timeout": None, "shard": "x: 0"}, r"is for programs that several ranks run"),
        ("energy", {"framework": "tensorflow"}, r"ranks= is for torch and jax, not for tensorflow"),
        ("energy", {"framework": "jax", "shard": "x: 0"}, r"shard= is for torch, not for jax"),
        ("energy", {"order": 2}, r"ranks= checks what backward leaves on each rank, without order=2"),
    ],
)  # fmt: skip
def test_what_cannot_be_checked_is_said(name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(GradcliError, match=says):
        check(name, {"x": X}, **options)
    assert not multiprocessing.active_children()


def test_no_input_is_an_error() -> None:
    with pytest.raises(GradcliError, match="has no float input"):
        check("nothing", None)


@for_rows(
    ("name", "at", "options", "verdict"),
    [
        ("square", {"x": X}, {}, Verdict.PASS),
        ("energy", {"x": X}, {}, Verdict.FAIL),
        ("energy", {"x": X}, {"shard": {"x": 0}, "loss": "sum"}, Verdict.FAIL),
        ("energy", {"x": X}, {"reference": f"{FAULTS}:square"}, Verdict.FAIL),
        ("of_parts", {"x": X, "w": 2.0}, {"shard": f"{FAULTS}:place", "wrt": "w"}, Verdict.FAIL),
        ("of_parts", {"x": X, "w": 2.0}, {"shard": f"{FAULTS}:uneven", "wrt": "w"}, Verdict.FAIL),
    ],
)
def test_ranks_end_with_the_check(name: str, at: dict[str, Any], options: dict[str, Any], verdict: Verdict) -> None:
    report = check(name, at, **options)
    assert report.verdict == verdict
    assert [len(rank.gradient) for rank in report.points[0].ranks] == [1, 1]
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_ranks_end_with_the_program(number: signal.Signals) -> None:
    target = f"{FAULTS}:waits"
    with started("check", target, "--at", "x=[1.0, 2.0]", "--ranks", "2", "--rank-timeout", "300s") as running:
        while len(children := below(running.pid)) < 4 and running.poll() is None:  # its child, workers, a rank
            time.sleep(0.05)
        running.send_signal(number)
        status = running.wait()
    assert status == {signal.SIGKILL: -9, signal.SIGINT: 130}[number]
    assert len(children) > 2 and all(map(ends, children))


@pytest.mark.parametrize("part", [(), ("--shard", "1/1")])
def test_a_suite_has_checks_on_ranks_and_says_what_each_rank_has(
    part: tuple[str, ...], tmp_path: Path, loaded: Any
) -> None:
    (tmp_path / "gradcli.toml").write_text(
        f'[[check]]\nid = "one"\ntarget = "{FAULTS}:square"\nat = "x=[1.0, 2.0]"\nranks = 2\nshard = "x: 0"\nloss = "sum"\n'
    )
    program: Loaded = loaded("torch")
    ran = program.run("check", "--format", "ndjson", *part, cwd=str(tmp_path))
    document = json.loads(ran.stdout.splitlines()[0])
    assert document["verdict"] == "pass"
    assert document["points"][0]["ranks"] == [
        {"rank": 0, "loss": 1.0, "gradient": {"x": [2.0]}}, {"rank": 1, "loss": 4.0, "gradient": {"x": [4.0]}},
    ]  # fmt: skip
    assert document["points"][0]["at"]["x"] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("name", "verdict"), [("plain", "pass"), ("identity", "pass"), ("summed_twice", "fail"), ("on_one", "fail")]
)
def test_shard_map_has_as_many_devices(name: str, verdict: str, loaded: Any) -> None:
    pytest.importorskip("jax")
    at = "x=randn(1,2), W=randn(2,2)"
    ran = loaded("torch", "jax").run(
        "check", f"{HERE / 'devices.py'}:{name}", "--framework", "jax", "--ranks", "2", "--at", at, "--json"
    )
    assert json.loads(ran.stdout)["verdict"] == verdict
