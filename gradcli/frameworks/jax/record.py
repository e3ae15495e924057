"""Recording of a JAX function as a program in numpy, primitive by primitive.

A custom trace receives every primitive with its actual values, so that control flow on values is followed as it
happened; jitted functions and other calls are opened. Each primitive is also run in numpy, and compared with JAX's own
result: if the two differ, the recording is refused.
"""

import inspect
import linecache
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal, set_current_trace

from gradcli.errors import NotSupported, Place
from gradcli.frameworks.framework import (
    FrameworkStep,
    RecordedSteps,
    Slot,
    is_equal_up_to_rounding,
    replace_attribute,
    rounds_to,
    run_step,
)
from gradcli.frameworks.ops import TABLE
from gradcli.frameworks.ops.elementwise import scipy_function
from gradcli.tracing.primitive import Value, primitive_by_name
from gradcli.tracing.provenance import current_position, is_users_file, path_for_display
from gradcli.tracing.shapes import concatenate_entries, shape, size, split_like
from gradcli.tracing.tracer import Tracer

_NOT_ANALYTIC = {"conj", "sign"}


def to_numpy(x: Any) -> Any:
    """Return an array in numpy: floats in float64, an array without axes as a number."""
    x = np.asarray(x)
    if x.dtype.kind in "iub":
        return x[()]
    return np.array(x, dtype=np.complex128 if x.dtype.kind == "c" else np.float64)[()]


_STOPPING = (jax.lax.stop_gradient.__code__.co_filename, "stop_gradient")  # the file and the name of the function
_LIBRARY = jax.__path__[0]


class At:
    """The source position of a jaxpr's equation."""

    __slots__ = ("traceback",)

    def __init__(self, traceback: Any) -> None:
        self.traceback = traceback

    @property
    def span(self) -> Place | None:
        """The innermost line of the user's code."""
        for frame in self.traceback.frames if self.traceback is not None else ():
            if is_users_file(frame.file_name):
                text = linecache.getline(frame.file_name, frame.line_num).rstrip("\n")
                return Place(path_for_display(frame.file_name), frame.line_num, text)
        return None


def _is_stopped_by_jax(where: Any) -> bool:
    """Whether a function of JAX calls stop_gradient, as softmax does for the maximum, whose gradient does not matter."""
    if isinstance(where, At):
        calls = [(x.file_name, x.function_name) for x in where.traceback.frames]
    else:
        calls = [(frame.filename, frame.function) for frame in inspect.stack(context=0)]
    callers = (calls[k + 1][0] for k, call in enumerate(calls[:-1]) if call == _STOPPING)
    return next(callers, "").startswith(_LIBRARY)


class JaxTracer(jax.core.Tracer):  # type: ignore[misc]
    """A value that depends on the inputs."""

    __slots__ = ("number", "value")

    def __init__(self, trace: "JaxRecorder", value: Any, number: int) -> None:
        super().__init__(trace, jax.typeof(value))
        self.value = value
        self.number = number

    def to_concrete_value(self) -> Any:
        """Return the value, so that code may branch on it."""
        return self.value


# Evaluation of a jaxpr on values that may be traced, equation by equation, with calls and loops unrolled.
#
# An equation on untraced values whose primitive has no table entry (random bits, shifts) is left to JAX itself.

MOST_STEPS = 10_000  # over all loops together, because each step is replayed separately
CALLS = {  # primitives that run a jaxpr, and the parameter that holds it
    "jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr", "call": "call_jaxpr",
    "remat": "jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr", "custom_vjp_call": "call_jaxpr", "composite": "jaxpr",
    "custom_jvp_call": "call_jaxpr", "custom_vjp_call_jaxpr": "fun_jaxpr", "custom_vmap_call": "call", "custom_lin": "jaxpr",
}  # fmt: skip
SILENT = {"debug_callback", "debug_print", "inspect_sharding"}
Values = Sequence[Value]


def evaluate_jaxpr(closed_jaxpr: Any, values: Values) -> list[Value]:
    """Return the outputs of a jaxpr at `values`, the flat list of its inputs.

    Untraced real numbers are float64 throughout. Call it with jax_enable_x64 on.

    Raises  NotSupported for a primitive that is not replayed, or loops of over 10,000 steps.
    """
    with np.errstate(all="ignore"):
        return _Run().closed(closed_jaxpr, values)


# custom_linear_solve: recovers the matrix from the function that multiplies by it, and solves the equations.
#
# JAX factorises the matrix without derivatives and differentiates the product instead; here the solution itself is
# differentiated.

MOST_UNKNOWNS = 400  # for a product of unknown form, which is evaluated once for each unknown
Run = Callable[[Any, Sequence[Value]], list[Value]]
Axis = tuple[str, int]
MOVES = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr"}


def solve_linear_equations(params: Any, xs: Sequence[Value], run: Run) -> list[Value]:
    """Solve the equations of custom_linear_solve; `xs` are the constants of its four functions, then the right-hand sides.

    Raises  NotSupported for a product of unknown form with more than 400 unknowns.
    """
    lengths = params["const_lengths"]
    count = lengths.matvec + lengths.vecmat + lengths.solve + lengths.transpose_solve
    constants, right = list(xs[: lengths.matvec]), list(xs[count:])
    product = params["jaxprs"].matvec
    form = solver_of_contraction(product, lengths.matvec) if len(right) == 1 else None
    if form is not None:
        return [form(constants, right[0])]
    n = sum(size(x) for x in right)
    if n > MOST_UNKNOWNS:
        raise NotSupported(f"custom_linear_solve with {n} unknowns is not replayed", do=f"at most {MOST_UNKNOWNS}")
    columns = [concatenate_entries(run(product, [*constants, *split_like(unit, right)])) for unit in np.eye(n)]
    return split_like(np.linalg.solve(np.stack(columns, axis=-1), concatenate_entries(right)), right)


def solver_of_contraction(product: Any, count: int) -> Callable[[Sequence[Value], Value], Value] | None:
    """Return a solver for a product that is one contraction of a constant with the vector; None for any other product.

    Axes are followed by name through the equations: the axis of the vector that is contracted, the axis of the constant
    that takes its place, and the axes that stay (stacks of matrices, several right-hand sides).
    """
    jaxpr = getattr(product, "jaxpr", product)
    if len(jaxpr.invars) != count + 1 or jaxpr.constvars:
        return None
    names: dict[Any, list[Axis]] = {}
    for k, variable in enumerate(jaxpr.invars):
        names[variable] = [("x" if k == count else f"constant {k}", axis) for axis in range(len(variable.aval.shape))]
    contracted: list[tuple[Axis, Axis]] = []
    batched: dict[Axis, Axis] = {}
    if not _name_axes(jaxpr, names, contracted, batched) or len(contracted) != 1:
        return None
    column, unknown = contracted[0] if contracted[0][1][0] == "x" else contracted[0][::-1]
    if unknown[0] != "x" or column[0] == "x":
        return None
    which = int(column[0].split()[1])
    ndim = len(jaxpr.invars[count].aval.shape)
    found = names.get(jaxpr.outvars[0], [])
    rows = [axis for k, axis in enumerate(found) if axis != ("x", k)]
    if len(found) != ndim or len(rows) != 1 or rows[0][0] != column[0] or found.index(rows[0]) != unknown[1]:
        return None
    stacks = {x[1]: axis[1] for axis, x in batched.items()}  # from the vector's axes to the constant's
    return lambda constants, b: _solve_stack(constants[which], b, stacks, rows[0][1], column[1], unknown[1])


def _name_axes(
    jaxpr: Any, names: dict[Any, list[Axis]], contracted: list[tuple[Axis, Axis]], batched: dict[Axis, Axis]
) -> bool:
    """Name the axes of every value of a jaxpr; return False if an equation does more than move or contract axes."""
    for equation in jaxpr.eqns:
        name, params = equation.primitive.name, equation.params
        inputs = [names.get(atom) if not hasattr(atom, "val") else None for atom in equation.invars]
        if any(x is None for x in inputs):
            return False
        found: list[Any] = [x for x in inputs if x is not None]
        if name == "transpose":
            y = [found[0][k] for k in params["permutation"]]
        elif name in ("copy", "convert_element_type"):
            y = found[0]
        elif name == "dot_general" and not contracted:
            (over, under), (first, second) = params["dimension_numbers"]
            a, b = found
            contracted += [(a[i], b[j]) for i, j in zip(over, under, strict=True)]
            for i, j in zip(first, second, strict=True):
                one, other = (a[i], b[j]) if b[j][0] == "x" else (b[j], a[i])
                batched[one] = other
            y = [batched.get(a[i], a[i]) for i in first]
            y += [axis for k, axis in enumerate(a) if k not in (*over, *first)]
            y += [axis for k, axis in enumerate(b) if k not in (*under, *second)]
        elif name in MOVES:
            inner = getattr(params[MOVES[name]], "jaxpr", params[MOVES[name]])
            inside: dict[Any, list[Axis]] = dict(zip(inner.invars, found, strict=True))
            if inner.constvars or not _name_axes(inner, inside, contracted, batched):
                return False
            y = inside.get(inner.outvars[0], [])
        else:
            return False
        names[equation.outvars[0]] = y
    return True


def _solve_stack(a: Value, b: Value, stacks: dict[int, int], row: int, column: int, unknown: int) -> Value:
    """Solve for a stack of matrices; `stacks` pairs axes of `b` with those of `a`."""
    ours = list(stacks)
    free = [k for k in range(len(shape(b))) if k not in (*ours, unknown)]
    matrices = np.transpose(a, [stacks[k] for k in ours] + [row, column])
    order = [*ours, unknown, *free]
    stacked = np.transpose(b, order)
    sizes = shape(stacked)
    columns = np.reshape(stacked, (*sizes[: len(ours) + 1], int(np.prod(sizes[len(ours) + 1 :], dtype=int))))
    y = np.reshape(np.linalg.solve(matrices, columns), sizes)
    return np.transpose(y, np.argsort(order).tolist())


# Functions that JAX writes with branches, series or bit operations, and the gradcli functions that replace them.
#
# softplus, for example, is smooth, but JAX computes it by logaddexp with a maximum and an absolute value, whose ties are
# not kinks of the function.

JAXS_OWN = ("/jax/_src/", "\\jax\\_src\\")  # where these functions are, because a user's may have the same name

KNOWN: dict[str, Callable[..., Sequence[Value]]] = {
    **{name: lambda *xs, function=function: (function(*xs),) for name, function in {
        **{name: scipy_function(name.removeprefix("_")) for name in (
            "relu", "logit", "log_ndtr", "expi", "_i0", "_erfcx", "_dawsn", "xlogy", "xlog1py",
        )},
        "logaddexp": np.logaddexp, "logaddexp2": np.logaddexp2, "_det": np.linalg.det,
    }.items()},
    **dict.fromkeys(("_slogdet_lu", "_slogdet_qr", "_slogdet_small"), lambda a: tuple(np.linalg.slogdet(a))),
    "_frexp": lambda x: tuple(np.frexp(x)),
    "sici": lambda x: (primitive_by_name("si")(x), primitive_by_name("ci")(x)),
}  # fmt: skip


def find_replacement(program: Any) -> Callable[..., Sequence[Value]] | None:
    """Return gradcli's function for the body of a custom_jvp function that is one of JAX's own; None for any other."""
    name, is_jaxs_own = _name_and_owner(program)
    return KNOWN.get(name) if is_jaxs_own else None


def _name_and_owner(program: Any) -> tuple[str, bool]:
    """Return the name of the function that a program is the body of, and whether it is one of JAX's own."""
    info = getattr(getattr(program, "jaxpr", program), "debug_info", None)
    name, _, place = str(getattr(info, "func_src_info", "")).partition(" at ")
    return name, any(folder in place for folder in JAXS_OWN)


def _calls_custom_function(part: Any) -> bool:
    """Whether a parameter of a primitive holds a program that calls a function with a gradient of its own, at any depth."""
    if isinstance(part, tuple | list):
        return any(map(_calls_custom_function, part))
    for equation in getattr(getattr(part, "jaxpr", part), "eqns", ()):
        name, inner = equation.primitive.name, equation.params.get(CALLS.get(equation.primitive.name, ""))
        if name.startswith("custom_") and not _name_and_owner(inner)[1]:
            return True
        if any(map(_calls_custom_function, equation.params.values())):
            return True
    return False


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
                known_values[variable] = to_gradcli_form(value, variable.aval)

        def read(atom: Any) -> Value:
            return to_gradcli_form(atom.val, atom.aval) if hasattr(atom, "val") else known_values[atom]

        for equation in jaxpr.eqns:
            found = self.equation(equation, [read(atom) for atom in equation.invars])
            for variable, value in zip(equation.outvars, found, strict=True):
                known_values[variable] = to_gradcli_form(value, variable.aval)
        return [read(atom) for atom in jaxpr.outvars]

    def equation(self, equation: Any, xs: list[Value]) -> Sequence[Value]:
        """Return the values of one equation's outputs. Raises NotSupported."""
        name, params = equation.primitive.name, equation.params
        if name in TABLE:
            y = TABLE[name](*xs, **params)
            return y if isinstance(y, tuple) else (y,)
        if name in CALLS:
            program = params[CALLS[name]]
            own = find_replacement(program) if name == "custom_jvp_call" else None
            return own(*xs) if own is not None else self.closed(program, xs)
        if name in LOOPS:
            return LOOPS[name](self, params, xs)
        if name in SILENT:
            return ()
        if any(isinstance(x, Tracer) for x in xs):
            raise NotSupported(f"JAX's {name} is not replayed", do="write it with functions that are: gradcli ops")
        typed = [
            np.asarray(x, dtype=atom.aval.dtype) if isinstance(getattr(atom.aval, "dtype", None), np.dtype) else x
            for x, atom in zip(xs, equation.invars, strict=True)
        ]
        y = equation.primitive.bind(*typed, **params)
        return y if equation.primitive.multiple_results else (y,)

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
            if not np.all(going):
                masks = (np.reshape(going, np.shape(going) + (1,) * (len(shape(x)) - np.ndim(going))) for x in new)
                new = list(map(np.where, masks, new, carry))
            carry = new
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


LOOPS: dict[str, Callable[[_Run, Any, list[Value]], list[Value]]] = {
    "cond": _Run.cond, "while": _Run.while_, "scan": _Run.scan, "platform_index": _Run.platform_index,
    "custom_linear_solve": lambda run, params, xs: solve_linear_equations(params, xs, run.closed),
}  # fmt: skip


def to_gradcli_form(x: Any, aval: Any) -> Value:
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


class JaxRecorder(jax.core.Trace):  # type: ignore[misc]
    """A trace that records the primitives applied to values that depend on the inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.program = RecordedSteps()
        self.shadows: dict[int, Any] = {}
        self.here: Any = None
        self.count = -1

    def input(self, x: Any) -> JaxTracer:
        """Return an input wrapped, so that operations on it are recorded."""
        new = self._new(x)
        self.program.inputs.append(new.number)
        self.shadows[new.number] = to_numpy(x)
        return new

    def process_primitive(self, primitive: Any, xs: Sequence[Any], params: dict[str, Any], /) -> Any:
        """Run a primitive, and record it if one of its operands is recorded. Raises NotSupported for several devices."""
        if primitive.name == "shard_map":
            raise NotSupported("no trace follows what shard_map runs on several devices")
        if not any(self._is_recorded(x) for x in xs):
            with jax.core.eval_context():
                return primitive.bind(*xs, **params)
        inner = params.get(CALLS.get(primitive.name, ""))
        if inner is not None:
            own = find_replacement(inner) if primitive.name == "custom_jvp_call" else None
            if primitive.name.startswith("custom_") and not _name_and_owner(inner)[1]:
                self.program.has_custom_gradients = True
            ys = self._run_jaxpr(inner, xs) if own is None else self._record_library_call(inner, own, xs)
            return ys if primitive.multiple_results else ys[0]
        if any(map(_calls_custom_function, params.values())):  # in a loop or a branch
            self.program.has_custom_gradients = True
        values = [x.value if self._is_recorded(x) else x for x in xs]
        with jax.core.eval_context():
            y = primitive.bind(*values, **params)
        made = lambda: numpy_function(primitive, params, values)
        news = self._step(primitive.name, made, xs, y if primitive.multiple_results else [y])
        return news if primitive.multiple_results else news[0]

    def _step(self, name: str, made: Callable[[], Any], xs: Sequence[Any], ys: Sequence[Any]) -> list[JaxTracer]:
        """Record one operation with JAX's results `ys`; `made` returns the function that computes it in numpy."""
        news = [self._new(y) for y in ys]
        if not news:
            return news
        where = self.here if self.here is not None else current_position()
        args = tuple(Slot(x.number) if self._is_recorded(x) else to_gradcli_form(x, jax.typeof(x)) for x in xs)
        step = FrameworkStep(
            f"lax.{name}", _convert_results(made(), [t.aval for t in news]), args, {}, tuple(t.number for t in news), where,
            rounds_to=None if name in LOOPS else rounds_to(t.dtype.name for t in news),
        )  # fmt: skip
        run_step(step, self.shadows)
        if name == "stop_gradient" and not _is_stopped_by_jax(where):
            self.program.cuts.append(("stop", where))
        for t in news:
            self._compare_with_jax(step, t)
            self.program.narrow(t.dtype.name)
        self.program.steps.append(step)
        return news

    def _record_library_call(self, inner: Any, own: Callable[..., Any], xs: Sequence[Any]) -> list[JaxTracer]:
        """Record a function of JAX's library, which gradcli implements itself, as one operation."""
        values = [x.value if self._is_recorded(x) else x for x in xs]
        with jax.core.eval_context():
            ys = jax.core.eval_jaxpr(inner.jaxpr, inner.consts, *values)
        return self._step(inner.jaxpr.debug_info.func_name, lambda: own, xs, ys)

    def process_shard_map(self, primitive: Any, *args: Any) -> Any:
        """Raise NotSupported."""
        return self.process_primitive(primitive, (), {})

    def process_call(self, primitive: Any, f: Any, xs: Sequence[Any], params: Any, /) -> Any:
        """Run a called function under this trace."""
        with set_current_trace(self):
            return f.call_wrapped(*xs)

    def process_custom_jvp_call(self, primitive: Any, fun: Any, jvp: Any, xs: Sequence[Any], /, **params: Any) -> Any:
        """Run the function itself, without its rule."""
        own = find_replacement(fun)
        if not _name_and_owner(fun)[1]:
            self.program.has_custom_gradients = True
        if own is None or not any(self._is_recorded(x) for x in xs):
            with set_current_trace(self):
                return fun.call_wrapped(*xs)
        with jax.core.eval_context():
            ys = fun.call_wrapped(*(x.value if self._is_recorded(x) else x for x in xs))
        return self._step(fun.debug_info.func_name, lambda: own, xs, ys)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, xs: Sequence[Any], /, **params: Any
    ) -> Any:
        """Run the function itself, without its rule."""
        self.program.has_custom_gradients = True
        with set_current_trace(self):
            return fun.call_wrapped(*xs)

    def stage_value(self, x: Any) -> Any:
        """Return a recorded value unchanged, and a plain number as a JAX array."""
        if self._is_recorded(x):
            return x
        with jax.core.eval_context():
            return jax.numpy.asarray(x)

    def _run_jaxpr(self, inner: Any, xs: Sequence[Any]) -> list[Any]:
        """Run the equations of a jaxpr one by one."""
        jaxpr, constants = getattr(inner, "jaxpr", inner), getattr(inner, "consts", ())
        values: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *xs), strict=True))
        before = self.here
        for equation in jaxpr.eqns:
            operands = [v.val if isinstance(v, Literal) else values[v] for v in equation.invars]
            found = At(equation.source_info.traceback)
            self.here = found if found.span is not None else before
            y = self.process_primitive(equation.primitive, operands, equation.params)
            values.update(zip(equation.outvars, y if equation.primitive.multiple_results else [y], strict=True))
        self.here = before
        return [v.val if isinstance(v, Literal) else values[v] for v in jaxpr.outvars]

    def _compare_with_jax(self, step: FrameworkStep, t: JaxTracer) -> None:
        """Raise NotSupported if numpy gives a primitive a different value from JAX."""
        if not jax.numpy.issubdtype(t.dtype, jax.numpy.floating):
            return
        ours, theirs = self.shadows[t.number], to_numpy(t.value)
        if not is_equal_up_to_rounding(ours, theirs, t.dtype.name):
            place = step.position.span if isinstance(step.position, At) else None
            raise NotSupported(f"gradcli reads {step.name} differently from JAX", where=place)
        self.shadows[t.number] = theirs  # so that rounding errors do not add up over steps

    def _is_recorded(self, x: Any) -> bool:
        return isinstance(x, JaxTracer) and x._trace is self

    def _new(self, x: Any) -> JaxTracer:
        self.count += 1
        return JaxTracer(self, x, self.count)

    def value(self, x: Any) -> Any:
        """Return the plain value of a result."""
        return x.value if self._is_recorded(x) else x

    def result(self, x: Any) -> int:
        """Return the slot of one of the function's results."""
        if self._is_recorded(x):
            return int(x.number)
        self.count += 1
        self.program.constants[self.count] = to_numpy(x)
        return self.count


class Analytic(JaxRecorder):
    """A trace that refuses what is not the analytic continuation of the real function: |z|^2 for a square, say."""

    def input(self, x: Any) -> JaxTracer:
        """Return a complex input wrapped, so that operations on it are checked."""
        return self._new(x)

    def _step(self, name: str, made: Callable[[], Any], xs: Sequence[Any], ys: Sequence[Any]) -> list[JaxTracer]:
        # real parts and absolute values are allowed in comparisons only
        of_parts = any(self._is_recorded(x) and x.dtype.kind == "f" for x in xs)
        if name in _NOT_ANALYTIC or (of_parts and any(jax.typeof(y).dtype.kind in "fc" for y in ys)):
            raise TypeError(f"lax.{name} is not analytic here")
        return [self._new(y) for y in ys]


def numpy_function(primitive: Any, params: dict[str, Any], values: Sequence[Any]) -> Callable[..., Any]:
    """Return a function that computes a primitive in numpy, for operands of the same types as `values`."""
    known_entry = TABLE.get(primitive.name)
    if known_entry is not None:
        return partial(known_entry, **params)
    closed = jax.make_jaxpr(lambda *xs: primitive.bind(*xs, **params))(*values)

    def replayed(*xs: Any) -> list[Any]:
        with jax.enable_x64(True):
            return evaluate_jaxpr(closed, xs)

    return replayed


def _convert_results(compute: Callable[..., Any], avals: Sequence[Any]) -> Callable[..., Any]:
    """Return a function with its results converted to gradcli's formats."""

    def settling(*xs: Any) -> list[Any]:
        with np.errstate(all="ignore"):
            y = compute(*xs)
        ys = y if isinstance(y, tuple | list) else (y,)
        return [to_gradcli_form(part, aval) for part, aval in zip(ys, avals, strict=True)]

    return settling


def _allow_recorded_arguments(program: RecordedSteps) -> Any:
    """Return a context in which custom_vjp functions take recorded values for their nondiff_argnums, without their rules."""
    own = jax.custom_vjp.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        program.has_custom_gradients = True
        given = inspect.signature(self.fun).bind(*args, **kwargs).args if self.nondiff_argnums else ()
        held = [given[k] for k in self.nondiff_argnums if k < len(given)]
        return self.fun(*args, **kwargs) if any(isinstance(x, JaxTracer) for x in held) else own(self, *args, **kwargs)

    return replace_attribute(jax.custom_vjp, "__call__", call)


def record_program(
    call: Callable[[list[Any]], Any], inputs: Sequence[Any], outputs: Callable[[Any], list[Any]]
) -> tuple[RecordedSteps, Any]:
    """Record a call as a program of its inputs; return it with the call's result. Raises NotSupported."""
    recorder = JaxRecorder()
    with set_current_trace(recorder), _allow_recorded_arguments(recorder.program):
        y = call([recorder.input(x) for x in inputs])
    found = outputs(y)
    recorder.program.results = [recorder.result(t) for t in found]
    recorder.program.first = [to_numpy(recorder.value(t)) for t in found]
    return recorder.program, y
