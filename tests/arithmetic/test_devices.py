"""Which device a name means, and what is said of one that is not there; with frameworks that are made up."""

from collections.abc import Mapping
from typing import Any

import numpy
import pytest

from gradcli.arithmetic.devices import DEVICES, Devices, find_device
from gradcli.errors import BadOption, Installed
from tests.rows import for_rows

INSTALL = {"cuda": "pip install -U thing-cuda"}


def thing(*names: str, built_for: tuple[str, ...] = (), **more: Any) -> Mapping[str, Devices]:
    """Return the devices of a framework that is numpy by another name."""
    return {
        "thing": Devices(
            "numpy", lambda np: ["cpu", *names], lambda np, *name: name, lambda np: set(built_for), INSTALL, **more
        )
    }


@for_rows(
    ("name", "full"),
    [("cpu", "cpu"), ("cpu:0", "cpu"), ("cpu:1", "cpu:1"), ("cuda", "cuda:0"), ("cuda:1", "cuda:1"), ("gpu", "cuda:0"),
     ("gpu:1", "cuda:1"), ("mps", "mps"), ("mps:0", "mps")],
)  # fmt: skip
def test_a_name_has_a_kind_and_a_number(monkeypatch: pytest.MonkeyPatch, name: str, full: str) -> None:
    monkeypatch.setattr("gradcli.arithmetic.devices.DEVICES", thing("cpu:1", "cuda:0", "cuda:1", "mps"))
    assert find_device("thing", name) == full


#  the device, what there is, what the build is for, and what to do
MISSING = [
    ("cuda",   (),          (),        "install the build for cuda: pip install -U thing-cuda"),
    ("gpu",    (),          (),        "install the build for cuda: pip install -U thing-cuda"),
    ("cuda:1", (),          (),        "install the build for cuda: pip install -U thing-cuda"),
    ("cuda",   (),          ("cuda",), "this build is for cuda; see whether the driver finds a GPU: nvidia-smi"),
    ("cuda:1", ("cuda:0",), ("cuda",), "name one of these: --device cpu or cuda:0"),
    ("moon",   (),          (),        "name one of these: --device cpu"),
    ("cpu:1",  (),          (),        "name one of these: --device cpu"),
    ("cuda:x", ("cuda:0",), ("cuda",), "name one of these: --device cpu or cuda:0"),
    ("",       (),          (),        "name one of these: --device cpu"),
]  # fmt: skip


@for_rows(("name", "there", "built_for", "do"), MISSING)
def test_what_where_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, name: str, there: tuple[str, ...], built_for: tuple[str, ...], do: str
) -> None:
    monkeypatch.setattr("gradcli.arithmetic.devices.DEVICES", thing(*there, built_for=built_for))
    with pytest.raises(BadOption) as raised:
        find_device("thing", name)
    error = raised.value
    assert error.what == f"there is no device '{name}' here"
    assert error.where == Installed(f"thing {numpy.__version__} finds these devices: {', '.join(('cpu', *there))}")
    assert error.do == do


def test_a_device_without_float64_is_refused_where_float64_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradcli.arithmetic.devices.DEVICES", thing("cuda:0", "mps"))
    assert find_device("thing", "mps") == "mps"
    with pytest.raises(BadOption, match="thing has no float64 on mps, and float64 is what") as raised:
        find_device("thing", "mps", in_float64=True)
    assert raised.value.do == "name one that has it: --device cpu or cuda:0"


def test_the_cpu_is_there_without_a_look() -> None:
    assert all(find_device(name, "cpu", in_float64=True) == "cpu" for name in DEVICES)


def test_other_spellings_are_the_frameworks_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradcli.arithmetic.devices.DEVICES", thing("gpu", spellings={"cuda": "gpu", "mps": "gpu"}))
    assert {find_device("thing", name) for name in ("gpu", "cuda", "cuda:0", "mps")} == {"gpu"}
