"""A kept call as a function of what is differentiated, and as the claim of its derivative, indexed [output, input]."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.capture.recorder import Convention, Kept, Pair, copied

_MOST_NODES = 3  # of the mesh of a boundary value problem: its Jacobian is a block for each


@dataclass(frozen=True, slots=True)
class Stated:
    """What is checked: a function at a point, and the claims of its derivative.

    `claim` calls the gradient; `returned` gives what the call returned, None where that is another derivative. `values` are
    the values of the arguments by name.
    """

    function: Callable[..., Any]
    claim: Callable[..., Any]
    returned: Callable[..., Any] | None
    values: dict[str, Any]
    kind: str


def stated(kept: Kept) -> Stated:
    """Return what a kept call states: this function has this derivative here."""
    return _CONVENTIONS[kept.pair.convention](kept)


def value_at(kept: Kept) -> Any:
    """Return the value of the function at a kept call, as it is now."""
    args = [copied(x) for x in kept.args]
    if kept.pair.convention in ("along", "weighted"):
        del args[1]
    return value_of(kept.pair, *args)


def value_of(pair: Pair, *args: Any) -> Any:
    """Return the value of the function of a pair, without what it returns beside."""
    y = pair.function(*args)
    return y[0] if pair.joint else y


def gradient_of(pair: Pair, *args: Any, **kwargs: Any) -> Any:
    """Return what the gradient of a pair returns, without the value beside it."""
    y = pair.gradient(*args, **kwargs)
    return y if pair.part is None else y[pair.part]


def _plain(kept: Kept) -> Stated:
    pair, at = kept.pair, kept.pair.wrt
    x = _floats(kept.args[at])

    def with_x(x: Any) -> tuple[Any, ...]:
        return (*kept.args[:at], x, *kept.args[at + 1 :])

    def function(x: Any) -> Any:
        return value_of(pair, *with_x(x))

    def shaped(g: Any, x: Any) -> Any:
        return _fitting(g, lambda: function(np.array(x)), x, pair.kind)

    return _made(
        kept, function, lambda x: shaped(gradient_of(pair, *with_x(x), **kept.kwargs), x),
        lambda x: shaped(kept.returned, x), {_name(pair, at): x},
    )  # fmt: skip


def _transposed(kept: Kept) -> Stated:
    made = _plain(kept)
    if not kept.pair.options.get("col_deriv"):
        return made
    pair, at = kept.pair, kept.pair.wrt

    def claim(x: Any) -> Any:
        return np.transpose(gradient_of(pair, *kept.args[:at], x, *kept.args[at + 1 :], **kept.kwargs))

    return _made(kept, made.function, claim, lambda x: np.transpose(kept.returned), made.values)


def _elementwise(kept: Kept) -> Stated:
    """Newton's method of many equations at once: each value depends on its own unknown alone."""
    made = _plain(kept)
    x = np.asarray(next(iter(made.values.values())))
    if x.ndim == 0 or x.size == 1:
        return made
    second = kept.pair.kind == "hess"

    def diagonal(g: Any) -> Any:
        g = np.broadcast_to(np.asarray(g, dtype=float), x.shape)
        return np.diag(np.ravel(g)).reshape(x.shape * 2)

    function = (lambda x: np.sum(made.function(x))) if second else made.function
    pair = kept.pair
    claim = lambda x: diagonal(gradient_of(pair, x, *kept.args[1:], **kept.kwargs))
    return _made(kept, function, claim, lambda x: diagonal(kept.returned), made.values)


def _along(kept: Kept) -> Stated:
    """A product with the Hessian: `gradient` takes the point and a vector."""
    pair, more = kept.pair, kept.args[2:]
    return _made(
        kept, lambda x: value_of(pair, x, *more), lambda x, p: gradient_of(pair, x, p, *more, **kept.kwargs), None,
        {_name(pair, 0): _floats(kept.args[0])},
    )  # fmt: skip


def _weighted(kept: Kept) -> Stated:
    """A constraint's Hessian: that of the sum of its values, each times its multiplier."""
    pair, v = kept.pair, np.asarray(kept.args[1])
    return _made(
        kept, lambda x: np.sum(v * np.atleast_1d(value_of(pair, x))),
        lambda x: gradient_of(pair, x, v, *kept.args[2:], **kept.kwargs), lambda x: kept.returned,
        {_name(pair, 0): _floats(kept.args[0])},
    )  # fmt: skip


def _curve(kept: Kept) -> Stated:
    """A curve that is fitted: a function of the abscissae, and then of each parameter."""
    pair, t = kept.pair, kept.args[0]
    return _made(
        kept, lambda p: value_of(pair, t, *p), lambda p: gradient_of(pair, t, *p, **kept.kwargs), lambda p: kept.returned,
        {"p": np.array(kept.args[1:], dtype=float)},
    )  # fmt: skip


def _mesh(kept: Kept) -> Stated:
    """The right-hand side of a boundary value problem at every node of a mesh: the Jacobian is a block for each node."""
    pair, (x, y) = kept.pair, kept.args[:2]
    chosen = np.unique(np.linspace(0, x.size - 1, min(_MOST_NODES, x.size)).astype(int))
    x, y, p = x[chosen], y[:, chosen], kept.args[2:]
    n, m = y.shape

    def blocks(result: Any, chosen: Any) -> Any:
        by_y, by_p = result if p else (result, None)
        found = np.zeros((n, m, n, m))
        for k in range(m):
            found[:, k, :, k] = np.asarray(by_y)[:, :, chosen[k]]
        return (found, np.moveaxis(np.asarray(by_p)[:, :, chosen], 1, 2)) if p else found

    def function(y: Any, *p: Any) -> Any:
        return value_of(pair, x, y, *p)

    def claim(y: Any, *p: Any) -> Any:
        return blocks(gradient_of(pair, x, y, *p, **kept.kwargs), range(m))

    values = {"y": y, **({"p": np.asarray(p[0])} if p else {})}
    if not p:
        return _made(kept, lambda y: function(y), lambda y: claim(y), lambda y: blocks(kept.returned, chosen), values)
    returned = lambda y, p: blocks(kept.returned, chosen)
    return _made(kept, lambda y, p: function(y, p), lambda y, p: claim(y, p), returned, values)


def _ends(kept: Kept) -> Stated:
    """The boundary conditions of a boundary value problem: by the values at both ends, and by the parameters."""
    pair = kept.pair
    values = dict(zip(("ya", "yb", "p"), map(_floats, kept.args), strict=False))
    if "p" in values:
        return _made(
            kept, lambda ya, yb, p: value_of(pair, ya, yb, p), lambda ya, yb, p: tuple(gradient_of(pair, ya, yb, p)),
            lambda ya, yb, p: tuple(kept.returned), values,
        )  # fmt: skip
    return _made(
        kept, lambda ya, yb: value_of(pair, ya, yb), lambda ya, yb: tuple(gradient_of(pair, ya, yb)),
        lambda ya, yb: tuple(kept.returned), values,
    )  # fmt: skip


def _made(kept: Kept, function: Any, claim: Any, returned: Any, values: dict[str, Any]) -> Stated:
    """Return what is stated, with functions that have the names and the places of the user's."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind) for name in values]
    more = [inspect.Parameter("vector", kind)] if kept.pair.convention == "along" else []
    function = _of(kept, kept.pair.function, function, parameters)
    claims = [
        _of(kept, kept.pair.gradient, each, [*parameters, *more]) for each in (claim, returned) if each is not None
    ]
    return Stated(function, claims[0], claims[1] if len(claims) > 1 else None, values, kept.pair.kind)


def _of(kept: Kept, users: Any, ours: Any, parameters: list[inspect.Parameter]) -> Any:
    """Return a function of ours under the name of the user's; messages about it name the user's file and line.

    Each call begins with what the user's objects held at the kept call: a function may leave values in them.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        kept.state.rebind()
        return ours(*args, *kwargs.values())

    call.__wrapped__ = users  # type: ignore[attr-defined]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    name = getattr(users, "__qualname__", type(users).__name__).replace("<locals>.", "")
    call.__name__ = call.__qualname__ = name
    call.__module__ = getattr(users, "__module__", None) or call.__module__
    return call


def _name(pair: Pair, position: int) -> str:
    """Return the name that the user's function has for an argument."""
    try:
        names = [p.name for p in inspect.signature(pair.function).parameters.values() if p.kind is not p.VAR_POSITIONAL]
    except (TypeError, ValueError):
        names = []
    return names[position] if position < len(names) else "x"


def _floats(x: Any) -> Any:
    """Return an argument as an array of floats; scalars stay scalars."""
    array = np.asarray(x)
    return array.astype(float)[()] if array.dtype.kind in "iub" else array[()]


def _fitting(g: Any, value: Callable[[], Any], x: Any, kind: str) -> Any:
    """Return a derivative without, or with, the axes of length 1 by which scipy does not tell shapes apart."""
    if kind == "hess" or hasattr(g, "toarray") or hasattr(g, "matmat"):
        return g
    g = np.asarray(g)
    wanted = np.shape(value()) + np.shape(x)
    if g.shape != wanted and [n for n in g.shape if n != 1] == [n for n in wanted if n != 1]:
        return g.reshape(wanted)
    return g


_CONVENTIONS: dict[Convention, Callable[[Kept], Stated]] = {
    "plain": _plain, "transposed": _transposed, "elementwise": _elementwise, "along": _along, "weighted": _weighted,
    "curve": _curve, "mesh": _mesh, "ends": _ends,
}  # fmt: skip
