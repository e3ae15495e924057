"""Record the calls of JAX's custom rules, `custom_vjp` and `custom_jvp`, by themselves and under its transformations."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from gradcli.project.capture.recorder import GradientPair, RecordedCalls, Recorder, definition_name, find_caller
from gradcli.words import DerivativeKind


def replacements(recorder: Recorder) -> Iterator[tuple[Any, str, Any]]:
    """Yield what is replaced in JAX."""
    for kind in (jax.custom_vjp, jax.custom_jvp):
        yield kind, "__call__", _recording_call(recorder, kind.__call__)


def _recording_call(recorder: Recorder, plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return the call of a function with a rule of its own: the same call, which is recorded."""

    @functools.wraps(plain)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        rule = getattr(self, "bwd", None) or getattr(self, "jvp", None)
        kind: DerivativeKind = "vjp" if getattr(self, "bwd", None) else "jvp"
        if rule is not None and recorder.is_on:
            of = definition_name(self.fun)
            recorded = recorder.recorded(rule, kind, of) or recorder.recorded(self.fun, kind, of)  # as for defjvps
            if recorded is not None:
                pair = GradientPair(kind, self, rule, "framework", options={"framework": "jax"})
                _record_call(recorded, pair, (args, kwargs))
        return plain(self, *args, **kwargs)

    return call


def _record_call(recorded: RecordedCalls, pair: GradientPair, arguments: Any) -> None:
    leaves, tree = jax.tree_util.tree_flatten(arguments)
    moving = [k for k, x in enumerate(leaves) if isinstance(x, jax.Array | jax.core.Tracer)]
    at = find_caller("jax")
    if any(jax.dtypes.issubdtype(leaves[k].dtype, jax.dtypes.extended) for k in moving):
        recorded.unclear.add("it was called with a random key: such calls are not checked")
        moving = []
    if not moving:
        return

    def arrived(*values: Any, drawn: bool = False) -> None:
        """Take the values of a call, which JAX may give later, and once for each run of compiled code."""
        if not recorded.recorder.is_on:
            return
        own = dict(zip(moving, map(np.asarray, values), strict=True))

        def given() -> Any:
            whole = [np.array(own[k]) if k in own else x for k, x in enumerate(leaves)]
            return jax.tree_util.tree_unflatten(tree, whole)

        shapes = tuple((x.shape, str(x.dtype)) for x in own.values())
        recorded.keep_call(pair, shapes, given, at=at, drawn=drawn)

    values = [leaves[k] for k in moving]
    if not any(isinstance(x, jax.core.Tracer) for x in values):
        arrived(*values)
        return
    try:
        jax.debug.callback(arrived, *values)
    except (TypeError, ValueError, NotImplementedError, RuntimeError):  # a transformation that takes no callback
        arrived(*map(_draw_values, values), drawn=True)


def _draw_values(x: Any) -> Any:
    """Return values of the shape and the format of an abstract array; floats are drawn."""
    drawn = np.random.default_rng(0).normal(size=x.aval.shape)
    return (drawn if np.issubdtype(x.aval.dtype, np.floating) else np.zeros(x.aval.shape)).astype(x.aval.dtype)
