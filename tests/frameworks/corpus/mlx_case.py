"""How an MLX function is given a backward pass of its own, and where people have it."""

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import mlx.core as mx

from tests.frameworks.corpus.case import Case, Function


def with_vjp(f: Function, bwd: Function) -> Function:
    """Return a function with a backward pass of its own: from the output's cotangent, the output and the inputs."""
    ruled = mx.custom_function(f)

    @ruled.vjp  # type: ignore[misc]
    def vjp(primals: Any, ybar: Any, y: Any) -> Any:
        return bwd(ybar, y, *(primals if isinstance(primals, tuple | list) else (primals,)))

    return ruled  # type: ignore[no-any-return]


def case(name: str, f: Function, bwd: Function, wrong: Mapping[str, Function], **inputs: Any) -> Case:
    """Return a case whose versions differ in their backward pass alone."""
    versions = {says: with_vjp(f, rule) for says, rule in wrong.items()}
    return Case(name, with_vjp(f, bwd), versions, inputs)


def program(custom: Function, names: tuple[str, ...]) -> Function:
    """Return a loss that has a custom function inside."""

    def loss(*args: Any) -> Any:
        y = custom(*args)
        smooth = [mx.sum(mx.sigmoid(x)) for x in args if mx.issubdtype(x.dtype, mx.floating)]
        return mx.sum(mx.sin(y) + 0.3 * y) + 0.1 * functools.reduce(mx.add, smooth)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    loss.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
    return loss
