"""Suites with `seed = "random"`: one seed for all, or one of a check's own; documents and commands have the number."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradcli.project.suite.config import digest_of_check, find_suite
from gradcli.request.option_values import RandomSeed
from tests.project.suite.project import QUICK

Process = Callable[..., Any]
SUITE = f"""{QUICK}
[profile.nightly]
seed = "random"
[[check]]
id = "a"
target = "sum(x**2)"
at = "x=randn(3)"
[[check]]
id = "b"
target = "sum(x**3)"
at = "x=randn(3)"
seed = 3
"""
OWN = SUITE + '[[check]]\nid = "c"\ntarget = "x**2"\nseed = "random"\n'


def written(folder: Path, suite: str = SUITE) -> Path:
    (folder / "gradcli.toml").write_text(suite)
    return folder


def seeds(document: Any) -> dict[str, int]:
    return {row["id"]: row["document"]["seed"] for row in document["checks"]}


@pytest.mark.parametrize("words", [("--seed", "random"), ("--profile", "nightly"), ("--seed", "random", "-n", "2")], ids=" ".join)  # fmt: skip
def test_all_checks_have_the_seed_that_was_drawn(process: Process, tmp_path: Path, words: tuple[str, ...]) -> None:
    folder = written(tmp_path)
    found = process("check", *words, "--json", cwd=folder).json
    seed, profile = str(found["seed"]), words if "nightly" in words else ()
    assert seeds(found) == {"a": int(seed), "b": int(seed)}
    assert found["command"] == ["gradcli", "check", *profile, "--seed", seed]
    assert found["checks"][0]["document"]["command"] == ["gradcli", "check", "-k", "a", *profile, "--seed", seed]
    again = process(*found["command"][1:], "--json", cwd=folder).json
    points = [[row["document"]["points"] for row in document["checks"]] for document in (found, again)]
    assert [[p["at"] for p in row] for row in points[0]] == [[p["at"] for p in row] for row in points[1]]


def test_text_names_the_seed_before_the_counts(process: Process, tmp_path: Path) -> None:
    folder = written(tmp_path)
    lines = process("check", "--seed", "random", cwd=folder).stdout.splitlines()
    assert lines[-2].startswith("The seed was drawn: --seed ") and lines[-1].startswith("2 passed")
    assert "The seed" not in process("check", cwd=folder).stdout


def test_a_seed_of_one_check_stays_its_own(process: Process, tmp_path: Path) -> None:
    folder = written(tmp_path, OWN)
    found = process("check", "--json", cwd=folder).json
    own = seeds(found)["c"]
    assert seeds(found) == {"a": 0, "b": 3, "c": own} and own > 3
    assert [row["document"]["command"][4:] for row in found["checks"]] == [[], [], ["--seed", str(own)]]
    assert (found["seed"], found["command"]) == (0, ["gradcli", "check"])


def test_a_drawn_default_does_not_claim_to_repeat_checks_that_have_a_seed(process: Process, tmp_path: Path) -> None:
    folder = written(tmp_path, f'seed = "random"\n{SUITE}')
    found = process("check", "--json", cwd=folder).json
    assert seeds(found) == {"a": found["seed"], "b": 3} and found["command"] == ["gradcli", "check"]
    assert process("check", cwd=folder).stdout.splitlines()[-2].endswith(" was drawn.")


def test_a_drawn_seed_is_the_same_request_in_every_run(tmp_path: Path) -> None:
    (check, *_) = find_suite(written(tmp_path)).checks  # type: ignore[union-attr]
    ask = check.ask
    seeds = (RandomSeed(1), RandomSeed(2), 1, 2)
    made = [replace(check, ask=replace(ask, options=replace(ask.options, seed=seed))) for seed in seeds]
    assert len({digest_of_check(each) for each in made}) == 3 and digest_of_check(made[0]) == digest_of_check(made[1])


def test_shards_that_drew_different_seeds_are_not_one_run(process: Process, tmp_path: Path) -> None:
    folder = written(tmp_path)
    for k in (1, 2):
        process("check", "-q", "--seed", "random", "--shard", f"{k}/2", "--out", f"s{k}.json", cwd=folder)
    error = process("merge", "s1.json", "s2.json", "--json", cwd=folder).json["error"]
    assert error["message"] == "s2.json and s1.json are not of one suite: their seeds differ"
    assert error["hint"] == "merge the documents of one run: give all shards one --seed"
    assert json.loads((folder / "s1.json").read_text())["seed"] > 3
