"""A self-test at the bottom of generated code: a point that is written out, and one number that the derivative has there."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradcli.derivation.problem import Problem
from gradcli.errors import GradcliError

TOLERANCE = 1e-9
#                how a value x of size n is made into one of which the fact holds
MADE: dict[str, str] = {
    "symmetric":    "({x} + {x}.T)/2",
    "tied":         "({x} + {x}.T)/2",
    "spd":          "{x}@{x}.T + np.eye(len({x}))",
    "diagonal":     "np.diag(np.diag({x}))",
    "orthogonal":   "np.linalg.qr({x})[0]",
    "simplex":      "np.abs({x})/np.sum(np.abs({x}))",
    "simplex rows": "np.abs({x})/np.sum(np.abs({x}), axis=1, keepdims=True)",
    "onehot":       "np.eye(len({x}))[0]",
    "onehot rows":  "np.eye({x}.shape[1])[np.arange(len({x})) % {x}.shape[1]]",
    "signs":        "np.where({x} < 0, -1.0, 1.0)",
    "positive":     "np.abs({x}) + 0.3",
}  # fmt: skip


def self_test(problem: Problem, kind: str, sizes: Mapping[str, int], truth: Callable[[dict[str, Any]], Any]) -> str:
    """Return the lines that test the code when it is run as a program; none where f has no derivative at their point."""
    if {kind, "np", "found", "weights"} & set(problem.dims):
        return ""  # these names are the test's own
    lines = []
    for k, (name, dims) in enumerate(problem.dims.items(), 1):
        shape = [sizes.get(d) or int(d) for d in dims]
        count = int(np.prod(shape, dtype=int))
        start = f"np.sin({k}.0 + np.arange({count})**2)"
        lines.append(
            f"{name} = {start}.reshape({shape})"
            if len(shape) > 1
            else f"{name} = {start}"
            if shape
            else f"{name} = np.sin({k}.0)"
        )
        lines += [f"{name} = {MADE[word].format(x=name)}" for word in MADE if word in problem.facts.get(name, ())]
    scope: dict[str, Any] = {"np": np}
    try:
        exec("\n".join(lines), scope)  # our own text: names are identifiers, all else from the table above
    except np.linalg.LinAlgError:
        return ""
    point = {name: np.asarray(scope[name], dtype=np.float64)[()] for name in problem.dims}
    named = {d: np.float64(s) for d, s in sizes.items() if d in problem.f.inputs and d not in point}
    try:
        derivative = truth(point | named)
    except GradcliError:
        return ""
    if derivative is None:
        return ""
    found = float(np.sum(derivative * _weights(np.size(derivative)).reshape(np.shape(derivative))))
    given = ", ".join(f"{name}={name}" for name in problem.dims)
    body = [
        *lines, f"found = np.asarray({kind}({given}))", "weights = np.cos(np.arange(found.size)).reshape(found.shape)",
        f"assert abs(np.sum(found*weights) - {found!r}) < {TOLERANCE}*(1 + np.max(np.abs(found))*found.size)", 'print("ok")',
    ]  # fmt: skip
    return '\n\nif __name__ == "__main__":\n' + "".join(f"    {line}\n" for line in body)


def _weights(count: int) -> Any:
    return np.cos(np.arange(count))
