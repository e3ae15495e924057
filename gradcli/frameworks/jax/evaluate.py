"""Evaluation of a jaxpr on values that may be traced, equation by equation, with calls and loops unrolled.

An equation on untraced values whose primitive has no table entry (random bits, shifts) is left to JAX itself.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape
from gradcli.core.tracer import Tracer
from gradcli.errors import NotSupported
from gradcli.frameworks.jax.own_functions import known
from gradcli.frameworks.jax.solving import solved
from gradcli.frameworks.ops import TABLE

MOST_STEPS = 10_000  # over all loops together, because each step is replayed separately
CALLS = {  # primitives that run a jaxpr, and the parameter that holds it
    "jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr", "call": "call_jaxpr",
    "remat": "jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr", "custom_vjp_call": "call_jaxpr", "composite": "jaxpr",
    "custom_jvp_call": "call_jaxpr", "custom_vjp_call_jaxpr": "fun_jaxpr", "custom_vmap_call": "call", "custom_lin": "jaxpr",
}  # fmt: skip
SILENT = {"debug_callback", "debug_print", "inspect_sharding"}
Values = Sequence[Value]


def evaluated(closed_jaxpr: Any, values: Values) -> list[Value]:
    """Return the outputs of a jaxpr at `values`, the flat list of its inputs.

    Untraced real numbers are float64 throughout. Call it with jax_enable_x64 on.

    Raises  NotSupported for a primitive that is not replayed, or loops of over 10,000 steps.
    """
    with np.errstate(all="ignore"):
        return _Run().closed(closed_jaxpr, values)


class _Run:
    """One evaluation, with the number of loop steps that are left."""

    def __init__(self) -> None:
        self.left = MOST_STEPS

    def closed(self, program: Any, values: Values) -> list[Value]:
        """Run a closed jaxpr with its constants, or an open one without any."""
        jaxpr = getattr(program, "jaxpr", program)
        constants = getattr(program, "consts", ())
        known_values: dict[Any, Value] = {}
        for variables, given in ((jaxpr.constvars, constants), (jaxpr.invars, values)):
            for variable, value in zip(variables, given, strict=True):
                known_values[variable] = settled(value, variable.aval)

        def read(atom: Any) -> Value:
            return settled(atom.val, atom.aval) if hasattr(atom, "val") else known_values[atom]

        for equation in jaxpr.eqns:
            found = self.equation(equation, [read(atom) for atom in equation.invars])
            for variable, value in zip(equation.outvars, found, strict=True):
                known_values[variable] = settled(value, variable.aval)
        return [read(atom) for atom in jaxpr.outvars]

    def equation(self, equation: Any, xs: list[Value]) -> Sequence[Value]:
        """Return the values of one equation's outputs. Raises NotSupported."""
        name, params = equation.primitive.name, equation.params
        if name in TABLE:
            y = TABLE[name](*xs, **params)
            return y if isinstance(y, tuple) else (y,)
        if name in CALLS:
            program = params[CALLS[name]]
            own = known(program) if name == "custom_jvp_call" else None
            return own(*xs) if own is not None else self.closed(program, xs)
        if name in LOOPS:
            return LOOPS[name](self, params, xs)
        if name in SILENT:
            return ()
        if any(isinstance(x, Tracer) for x in xs):
            raise NotSupported(f"JAX's {name} is not replayed", do="write it with functions that are: gradcli ops")
        return _left_to_jax(equation, xs)

    def step(self) -> None:
        """Count one step of a loop. Raises NotSupported when none is left."""
        self.left -= 1
        if self.left < 0:
            raise NotSupported(
                f"loops of over {MOST_STEPS} steps are not replayed", do="check fewer steps, or another point"
            )

    def cond(self, params: Any, xs: list[Value]) -> list[Value]:
        """Run the branch that the first value selects by its number."""
        branches = params["branches"]
        return self.closed(branches[min(max(int(xs[0]), 0), len(branches) - 1)], xs[1:])

    def while_(self, params: Any, xs: list[Value]) -> list[Value]:
        """Run the body until the condition fails; in an array of conditions (under vmap), each stops its own part."""
        first, second = params["cond_nconsts"], params["body_nconsts"]
        of_condition, of_body, carry = xs[:first], xs[first : first + second], xs[first + second :]
        while np.any(going := self.closed(params["cond_jaxpr"], [*of_condition, *carry])[0]):
            self.step()
            new = self.closed(params["body_jaxpr"], [*of_body, *carry])
            carry = new if np.all(going) else [_chosen(going, *pair) for pair in zip(new, carry, strict=True)]
        return carry

    def scan(self, params: Any, xs: list[Value]) -> list[Value]:
        """Run the body over the slices along the first axes, and stack what each step returns."""
        constants, carried = params["num_consts"], params["num_carry"]
        fixed, carry, over = xs[:constants], xs[constants : constants + carried], xs[constants + carried :]
        order = range(params["length"])
        stacked: dict[int, list[Value]] = {}
        for k in reversed(order) if params["reverse"] else order:
            self.step()
            found = self.closed(params["jaxpr"], [*fixed, *carry, *(x[k] for x in over)])
            carry, stacked[k] = found[:carried], found[carried:]
        if not order:
            shapes = [atom.aval for atom in getattr(params["jaxpr"], "jaxpr", params["jaxpr"]).outvars[carried:]]
            return [*carry, *(np.zeros((0, *aval.shape)) for aval in shapes)]
        return [*carry, *(np.stack(rows) for rows in zip(*(stacked[k] for k in order), strict=True))]

    def platform_index(self, params: Any, xs: list[Value]) -> list[Value]:
        """Return which of the alternatives is for this machine: the CPU's, or the one for all."""
        named = [k for k, names in enumerate(params["platforms"]) if names is None or "cpu" in names]
        return [np.int32(named[0])]

    def solve(self, params: Any, xs: list[Value]) -> list[Value]:
        """Solve the linear equations of custom_linear_solve."""
        return solved(params, xs, self.closed)


LOOPS: dict[str, Callable[[_Run, Any, list[Value]], list[Value]]] = {
    "cond": _Run.cond, "while": _Run.while_, "scan": _Run.scan, "platform_index": _Run.platform_index,
    "custom_linear_solve": _Run.solve,
}  # fmt: skip


def _chosen(which: Any, new: Value, old: Value) -> Value:
    """Return `new` where `which`, an array over the first axes, is true, and `old` elsewhere."""
    return np.where(np.reshape(which, np.shape(which) + (1,) * (len(shape(new)) - np.ndim(which))), new, old)


def settled(x: Any, aval: Any) -> Value:
    """Return a value in gradcli's form: reals in float64, arrays without axes as numpy scalars, integers as `aval` says.

    Values that only JAX understands (random keys) are returned unchanged.
    """
    dtype = getattr(aval, "dtype", None)
    if isinstance(x, Tracer) or not isinstance(dtype, np.dtype):
        return x
    y = np.asarray(x)
    real = np.dtype(np.complex128 if dtype.kind == "c" else np.float64)
    wanted = dtype if dtype.kind in "iub" else real
    y = y if y.dtype == wanted else y.astype(wanted)
    return y if y.shape else y[()]


def _left_to_jax(equation: Any, xs: list[Value]) -> Sequence[Value]:
    """Run one equation on untraced values in JAX itself."""
    typed = [
        np.asarray(x, dtype=atom.aval.dtype) if isinstance(getattr(atom.aval, "dtype", None), np.dtype) else x
        for x, atom in zip(xs, equation.invars, strict=True)
    ]
    primitive = equation.primitive
    y = primitive.bind(*typed, **equation.params)
    return y if primitive.multiple_results else (y,)
