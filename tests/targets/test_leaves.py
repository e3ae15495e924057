"""Single entries of arguments: of a module's parameters, of dataclasses, of defaults."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gradcli.errors import BadPoint
from gradcli.targets.arguments import merge_entries
from gradcli.targets.draws import Whole
from gradcli.targets.nesting import NamedValues
from tests.rows import for_rows


@dataclass(frozen=True)
class Config:
    scale: float
    steps: int = 3
    flag: bool = False


def f(x: Any, config: Config = Config(2.0)) -> Any:
    return config.scale * x


def test_the_parameters_of_a_module_have_their_own_names() -> None:
    held = NamedValues({"0.weight": np.ones(2), "fc.bias": np.zeros(1)})
    for path in ("fc.bias", "parameters.fc.bias"):
        found = merge_entries(f, {"parameters": held, "x": 1.0, path: np.array([5.0])}, True)
        assert found["parameters"]["fc.bias"] == 5.0 and found["parameters"]["0.weight"] is held["0.weight"]
        assert set(found) == {"parameters", "x"} and isinstance(found["parameters"], NamedValues)
    assert merge_entries(f, {"parameters": held, "0.weight": 2}, True)["parameters"]["0.weight"] == 2.0
    assert held["fc.bias"] == 0.0


@for_rows(
    ("path", "x", "expected"),
    [
        ("config.scale", 5, Config(5.0)), ("config.steps", 5, Config(2.0, 5)), ("config.flag", 1, Config(2.0, 3, True)),
        ("config.steps", Whole(4), Config(2.0, 4)), ("config.steps", 2.5, Config(2.0, 2.5)),
    ],
)  # fmt: skip
def test_an_entry_of_a_default_keeps_its_type(path: str, x: Any, expected: Config) -> None:
    found = merge_entries(f, {"x": 1.0, path: x}, True)["config"]
    assert found == expected
    assert [type(getattr(found, k)) for k in ("scale", "steps", "flag")] == [
        type(getattr(expected, k)) for k in ("scale", "steps", "flag")
    ]


def test_paths_of_a_report_stay() -> None:
    assert merge_entries(f, {"p.w[0]": 1.0, "p.w[1]": 2.0}, True) == {"p.w[0]": 1.0, "p.w[1]": 2.0}


def test_an_entry_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadPoint, match="no entry") as error:
        merge_entries(f, {"config.scal": 1.0}, True)
    assert "did you mean 'config.scale'?" in str(error.value.do)
