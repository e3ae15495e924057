"""How much memory there is: what the system has free or the container leaves, whichever is less."""

from pathlib import Path

import pytest

from gradcli.errors import TooLarge
from gradcli.targets import limits
from gradcli.targets.expression import Expression
from gradcli.targets.points import read_points

MEMINFO = "MemTotal:  16000000 kB\nMemFree:  1000000 kB\nMemAvailable:  8000000 kB\n"
FREE = 8_000_000 * 1024
GIB = 2**30


@pytest.fixture(name="system")
def _system(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Files of a system, by path; the others do not exist."""
    files: dict[str, str] = {}

    def text(path: Path) -> str:
        if str(path) not in files:
            raise FileNotFoundError(path)
        return files[str(path)]

    monkeypatch.setattr(Path, "read_text", text)
    return files


# fmt: off
LEFT = [  # limits.max, limits.current       bytes
    (None,           None,                   FREE),
    ("max\n",        "5\n",                  FREE),
    (f"{4*GIB}\n",   f"{GIB}\n",             3 * GIB),
    (f"{64*GIB}\n",  f"{GIB}\n",             FREE),
    (f"{GIB}\n",     None,                   FREE),
    ("what\n",       "5\n",                  FREE),
]
# fmt: on


@pytest.mark.parametrize(("most", "current", "expected"), LEFT)
def test_a_container_may_leave_less(system: dict, most: str | None, current: str | None, expected: int) -> None:
    system["/proc/meminfo"] = MEMINFO
    for name, text in (("max", most), ("current", current)):
        if text is not None:
            system[f"/sys/fs/cgroup/memory.{name}"] = text
    assert limits.memory_bytes() == expected


@pytest.mark.parametrize("meminfo", [None, "", "MemTotal: 5 kB\n", "MemAvailable: much\n", "MemAvailable:\n"])
def test_a_system_that_does_not_say_is_taken_at_its_size(
    system: dict[str, str], meminfo: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if meminfo is not None:
        system["/proc/meminfo"] = meminfo
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1000}.__getitem__, raising=False)
    assert limits.memory_bytes() == 4096 * 1000
    monkeypatch.delattr("os.sysconf")
    assert limits.memory_bytes() == 2**40


def test_here_there_is_some() -> None:
    assert 2**20 < limits.memory_bytes() <= 2**40


# Limits: what does not fit is refused before it is allocated


@pytest.mark.parametrize(("bytes_", "fits"), [(8 * 5_000_000, True), (8 * 5_000_000 - 1, False)])
def test_a_value_that_does_not_fit_is_refused(bytes_: int, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "memory_bytes", lambda: bytes_)
    ledger = limits.Ledger()
    if fits:
        ledger.enter(5_000_000)
    else:
        with pytest.raises(TooLarge) as error:
            ledger.enter(5_000_000)
        assert error.value.what == "an array of 5,000,000 entries does not fit into the memory that is free"
        assert error.value.do == "use smaller arrays"


def test_for_small_values_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "memory_bytes", lambda: pytest.fail("asked"))
    limits.Ledger().enter(limits._SMALL)


def test_points_and_expressions_are_refused_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "memory_bytes", lambda: 2**20)
    with pytest.raises(TooLarge, match="9,000,000 entries does not fit"):
        read_points(["W=randn(n, n)"], 0, {"n": 3000})
    with pytest.raises(TooLarge, match="9,000,000 entries does not fit"):
        Expression("sum(zeros((3000, 3000))) + x").survey({"x": 1.0})
