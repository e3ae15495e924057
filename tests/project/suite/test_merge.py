"""Documents of shards: merged they say what one run says, and nothing that is missing is hidden."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import started
from tests.project.suite.project import SUITE, VERDICTS, written
from tests.project.suite.test_faults import ENVIRON

Process = Callable[..., Any]
QUIETLY = ("-q", "--no-diagnose")


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    return written(tmp_path)


def shards(process: Process, folder: Path, count: int = 2, **words: tuple[str, ...]) -> list[str]:
    """Run all shards, `words` more for the shard of that name, and return the names of their documents."""
    names = [f"s{k}.json" for k in range(1, count + 1)]
    for k, name in enumerate(names, 1):
        process("check", *QUIETLY, "--shard", f"{k}/{count}", "--out", name, *words.get(f"s{k}", ()), cwd=folder)
    return names


def changed(path: Path, change: Callable[[Any], object]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.slow
def test_a_run_that_was_interrupted_says_so(process: Process, tmp_path: Path) -> None:
    sleeps = "import time\ndef f(x): time.sleep(10**6)\n"
    written(tmp_path, SUITE + '[[check]]\nid = "stuck"\ntarget = "sleeps.py:f"\nat = "x=1"\n', sleeps=sleeps)
    with started("check", "--out", "r.json", "--out", "r.xml", cwd=tmp_path, env=ENVIRON) as run:
        for _ in VERDICTS:
            run.stdout.readline()
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate()
    document = json.loads((tmp_path / "r.json").read_text())
    assert (run.returncode, document["exit_status"], document["not_reached"]) == (130, 130, ["stuck"])
    assert "not reached: stuck" in out and ", 1 not reached in" in out.splitlines()[-1]
    assert '<skipped message="not reached"/>' in (tmp_path / "r.xml").read_text()
    merged = process("merge", "r.json", "--json", cwd=tmp_path)
    assert merged.json["not_reached"] == ["stuck"] and merged.exit_status == 1
    changed(tmp_path / "r.json", lambda d: d.update(checks=[c for c in d["checks"] if c["verdict"] == "pass"]))
    assert process("merge", "r.json", cwd=tmp_path).exit_status == 2  # nothing wrong, and not everything was checked


@pytest.mark.slow
def test_shards_of_different_selections_are_not_one_run(process: Process, folder: Path) -> None:
    names = shards(process, folder, s2=("-k", "not bad"))
    ran = process("merge", *names, cwd=folder)
    assert ran.exit_status == 2 and "their selections differ" in ran.stderr


@pytest.mark.slow
def test_shards_of_different_declarations_are_not_one_run(process: Process, folder: Path) -> None:
    names = shards(process, folder)
    (folder / "gradcli.toml").write_text(SUITE.replace('grad = "bad_grad"', 'grad = "good_grad"'))
    process("check", *QUIETLY, "--shard", "2/2", "--out", names[1], cwd=folder)
    ran = process("merge", *names, cwd=folder)
    assert ran.exit_status == 2 and "their declarations of checks differ" in ran.stderr


@pytest.mark.slow
def test_the_same_selection_merges(process: Process, folder: Path) -> None:
    one = process("check", "-k", "not bad", "--no-diagnose", "--json", cwd=folder).json
    names = shards(process, folder, s1=("-k", "not bad"), s2=("-k", "not bad"))
    merged = process("merge", *names, "--json", cwd=folder).json
    assert merged["selected"] == one["selected"] == [name for name in VERDICTS if name != "bad"]
    assert merged["counts"] == one["counts"] and "not_reached" not in merged


@pytest.mark.slow
def test_the_status_is_that_of_the_checks(process: Process, folder: Path) -> None:
    names = shards(process, folder)
    for name in names:
        changed(folder / name, lambda d: d.update(exit_status=0))
    assert process("merge", *names, cwd=folder).exit_status == 1


@pytest.mark.slow
def test_what_is_stale_in_one_shard_is_stale(process: Process, folder: Path) -> None:
    baseline = ("--baseline", "known.json")
    process("check", *QUIETLY, *baseline, "--update-baseline", cwd=folder)
    changed(folder / "known.json", lambda d: d["known"].append("good: r: fail: factor"))
    names = shards(process, folder, s1=baseline, s2=baseline)
    ran = process("merge", *names, cwd=folder)
    assert ran.exit_status == 2 and "good: the baseline lists a failure that is no longer there\n" in ran.stdout
    assert "\n  gradcli check --no-diagnose --baseline known.json --update-baseline\n" in ran.stdout


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["checks"][0].update(document={}),
        lambda d: d["checks"][0].update(document={"error": 1}),
        lambda d: d["checks"][0]["document"].update(points=3),
        lambda d: d.update(shard={"index": 1, "of": 10**9}),
        lambda d: d.update(shard={"index": 0, "of": 1}),
        lambda d: d.update(checks=[{}]),
        lambda d: d.update(seconds=[]),
    ],
)
def test_a_damaged_document_is_an_error_of_the_user(
    process: Process, folder: Path, change: Callable[[Any], object]
) -> None:
    process("check", "-q", "-k", "good", "--out", "d.json", cwd=folder)
    changed(folder / "d.json", change)
    ran = process("merge", "d.json", cwd=folder)
    assert ran.exit_status == 2 and "internal" not in ran.stderr


@pytest.mark.slow
def test_no_report_replaces_what_it_is_made_from(process: Process, folder: Path) -> None:
    names = shards(process, folder)
    assert "would replace" in process("merge", *names, "--out", "./s1.json", cwd=folder).stderr
    words = ("check", "--baseline", "known.json", "--update-baseline", "-q")
    assert "would replace the baseline" in process(*words, "--out", "known.json", cwd=folder).stderr
    assert "there is no folder" in process("check", "--baseline", "no/k.json", "--update-baseline", cwd=folder).stderr


def test_a_baseline_on_the_command_line_is_in_the_current_folder(process: Process, folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir()
    process("check", *QUIETLY, "--baseline", "known.json", "--update-baseline", cwd=inner)
    assert (inner / "known.json").exists() and not (folder / "known.json").exists()
