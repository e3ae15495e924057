"""How large a value would be, computed before it is allocated."""

import contextlib
import math
import operator
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradcli.errors import TooLarge
from gradcli.rules import linalg, networks
from gradcli.rules.linalg import explicit_subscripts
from gradcli.targets import names
from gradcli.targets.names import CONSTRUCTORS, FUNCTIONS, call_signature
from gradcli.tracing.primitive import Primitive
from gradcli.tracing.shapes import shape, size
from gradcli.tracing.tracer import plain_value

MAX_ENTRIES = 2**27
MAX_TOTAL = 2**30
_SMALL = 2**22  # entries: the free memory is not looked up for smaller values
MAX_EXPONENT = 10**6
MAX_NODES = 20_000
MAX_STEPS = 2_000  # operations that one call runs one after the other; each is recorded
MAX_PRODUCTS = 2**38  # multiply-adds of one call: about a minute

Shape = tuple[int, ...]
_BROADCASTING = {
    operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.mod, operator.floordiv,
}  # fmt: skip


# How large results are that may have more entries than the arguments, and the work of functions that take more than one pass.
#
# Each entry takes the arguments of the function by name, and returns a number of entries, of steps, or of multiply-adds.

Count = Callable[..., int]


def _sizes_as_integers(x: Any) -> tuple[int, ...]:
    """Return sizes given as one number or as several."""
    return tuple(int(n) for n in np.ravel(np.asarray(x, dtype=float)))


def _product_of_sizes(x: Any) -> int:
    return math.prod(max(0, n) for n in _sizes_as_integers(x))


def _slice_entries(x: Any, axis: Any) -> int:
    """Return the entries of one slice across an axis."""
    return 1 if axis is None else size(x) // max(1, shape(x)[int(axis)])


def _broadcast_size(*shapes: tuple[int, ...]) -> int:
    return math.prod(np.broadcast_shapes(*shapes))


# Entries.


def _pad_entries(array: Any, pad_width: Any, **_: Any) -> int:
    widths = np.broadcast_to(np.asarray(pad_width, dtype=float), (len(shape(array)), 2))
    return math.prod(n + int(before) + int(after) for n, (before, after) in zip(shape(array), widths, strict=True))


def _take_along_entries(arr: Any, indices: Any, axis: Any = -1) -> int:
    at = np.shape(indices)
    if axis is None:
        return math.prod(at)
    rest = [1 if k == int(axis) % len(shape(arr)) else n for k, n in enumerate(shape(arr))]
    return _broadcast_size(tuple(rest), at)


def _insert_entries(arr: Any, obj: Any, values: Any, axis: Any = None) -> int:
    count = max(np.size(obj), max(shape(values), default=1) if axis is not None else size(values))
    return size(arr) + count * _slice_entries(arr, axis)


def _covariance_entries(m: Any, y: Any = None, rowvar: Any = True, **_: Any) -> int:
    sizes = [(1, *shape(x))[-2:] for x in (m, y) if x is not None]
    variables = sum(rows if rowvar or len(shape(m)) < 2 else columns for rows, columns in sizes)
    return max(variables**2, sum(math.prod(s) for s in sizes))


def _quantile_entries(a: Any, q: Any, axis: Any = None, keepdims: Any = False, **_: Any) -> int:
    over = range(len(shape(a))) if axis is None else [int(k) for k in np.ravel(axis)]
    return max(size(a), np.size(q) * (size(a) // max(1, math.prod(shape(a)[k] for k in over))))


def _fft(a: Any, n: Any = None, axis: Any = -1, **_: Any) -> int:
    length = shape(a)[int(axis)]
    return 2 * _slice_entries(a, axis) * max(length, 0 if n is None else int(n))


def _fftn(a: Any, s: Any = None, axes: Any = None, **_: Any) -> int:
    have = list(shape(a))
    lengths = () if s is None else _sizes_as_integers(s)
    for n, k in zip(lengths, axes or range(-len(lengths), 0), strict=True):
        have[int(k)] = max(n, have[int(k)])
    return 2 * math.prod(have)


def _multi_dot(arrays: Any) -> int:
    outer = sorted((n for x in arrays for n in shape(x)), reverse=True)
    return max([size(x) for x in arrays] + [math.prod(outer[:2])])


def _svd(a: Any, full_matrices: Any = True, compute_uv: Any = True, **_: Any) -> int:
    rows, columns = shape(a)[-2:]
    many = size(a) // max(1, rows * columns)
    return size(a) if not compute_uv else many * (rows**2 + columns**2 + min(rows, columns))


def _qr(a: Any, mode: Any = "reduced") -> int:
    rows = shape(a)[-2]
    return (2 if mode == "reduced" else 1 + rows) * size(a) + (rows**2 if mode == "complete" else 0)


def _solve_entries(a: Any, b: Any) -> int:
    if len(shape(b)) == 1:
        return size(a) // max(1, shape(a)[-1])
    return _broadcast_size(shape(a)[:-2], shape(b)[:-2]) * math.prod(shape(b)[-2:])


def _attention_entries(q: Any, k: Any, v: Any, **_: Any) -> int:
    many = _broadcast_size(shape(q)[:-2], shape(k)[:-2], shape(v)[:-2])
    return many * max(shape(q)[-2] * shape(k)[-2], shape(q)[-2] * shape(v)[-1])


def _dense_entries(x: Any, w: Any, b: Any = 0.0) -> int:
    product = (*shape(x)[:-1], shape(w)[-2]) if len(shape(w)) > 1 else shape(x)[:-1]
    return _broadcast_size(product, shape(b))


def _channel_norm_entries(x: Any, w: Any = 1.0, b: Any = 0.0, **_: Any) -> int:
    return max(size(x), size(x) * max(size(w), size(b)) // max(1, (*shape(x), 1, 1)[1]))


def _einsum_sizes(subscripts: str, operands: Sequence[Any]) -> tuple[str, dict[str, int]]:
    """Return the letters of an einsum's output, and the size of every letter."""
    inputs, output = explicit_subscripts(subscripts, [len(shape(x)) for x in operands]).split("->")
    sizes: dict[str, int] = {}
    for part, x in zip(inputs.split(","), operands, strict=True):
        for letter, n in zip(part, shape(x), strict=True):
            sizes[letter] = max(n, sizes.get(letter, 1))
    return output, sizes


def _matmul(a: Any, b: Any) -> int:
    rows, columns = (shape(a)[-2:-1] or (1,))[0], shape(b)[-1] if len(shape(b)) > 1 else 1
    return _broadcast_size(shape(a)[:-2], shape(b)[:-2]) * rows * columns


def _dot(a: Any, b: Any) -> int:
    if not shape(a) or not shape(b):
        return _broadcast_size(shape(a), shape(b))
    return math.prod(shape(a)[:-1]) * math.prod(shape(b)[:-2]) * (shape(b)[-1] if len(shape(b)) > 1 else 1)


def _tensordot(a: Any, b: Any, axes: Any = 2) -> int:
    summed = range(len(shape(a)) - axes, len(shape(a))) if isinstance(axes, int) else np.atleast_1d(axes[0])
    shared = math.prod(shape(a)[int(k)] for k in summed)
    return size(a) * size(b) // max(1, shared) ** 2


def _einsum_entries(subscripts: str, *operands: Any, **_: Any) -> int:
    """Return the entries of the output; numpy does not store the products that it sums."""
    output, sizes = _einsum_sizes(subscripts, operands)
    return math.prod(sizes[letter] for letter in output)


def index_value(x: Any, index: Any) -> Any:
    """Return x[index]."""
    return x[index]


def _indexed_entries(x: Any, index: Any) -> int:
    parts = index if isinstance(index, tuple) else (index,)
    lists = [len(part) for part in parts if isinstance(part, list)]
    sizes = iter(shape(x))
    kept = 1
    for part in parts:
        if part is None or part is Ellipsis:
            continue
        n = next(sizes, 1)
        kept *= len(range(*part.indices(n))) if isinstance(part, slice) else 1
    return kept * math.prod(sizes) * max(lists, default=1)


ENTRIES: dict[Any, Count] = {
    **dict.fromkeys((operator.matmul, np.matmul), _matmul), np.dot: _dot, np.tensordot: _tensordot,
    **dict.fromkeys((np.einsum, linalg.einsum), _einsum_entries),
    np.inner: lambda a, b: math.prod(shape(a)[:-1]) * math.prod(shape(b)[:-1]), np.outer: lambda a, b: size(a) * size(b),
    **dict.fromkeys((np.tril, np.triu), lambda m, k=0: size(m) ** 2 if len(shape(m)) == 1 else size(m)),
    np.diag: lambda v, k=0: (size(v) + abs(int(k))) ** 2 if len(shape(v)) == 1 else size(v),
    np.repeat: lambda a, repeats, axis=None: size(a) * int(np.max(repeats)),
    np.broadcast_to: lambda array, shape, **_: math.prod(int(n) for n in np.atleast_1d(shape)),
    index_value: _indexed_entries,
    np.tile: lambda A, reps: size(A) * _product_of_sizes(reps), names.pad: _pad_entries,
    np.resize: lambda a, new_shape: _product_of_sizes(new_shape),
    np.vander: lambda x, N=None, **_: size(x) * (size(x) if N is None else int(N)),
    np.diagflat: lambda v, k=0: (size(v) + abs(int(k))) ** 2,
    np.take: lambda a, indices, axis=None, **_: size(indices) * _slice_entries(a, axis),
    names.take_along_axis: _take_along_entries, np.insert: _insert_entries, np.cov: _covariance_entries,
    np.corrcoef: lambda x, y=None, rowvar=True, **_: _covariance_entries(x, y, rowvar),
    np.lib.stride_tricks.sliding_window_view: lambda x, window_shape, **_: size(x) * _product_of_sizes(window_shape),
    **dict.fromkeys((np.linspace, np.logspace, np.geomspace),
                    lambda start, stop, num=50, **_: int(num) * _broadcast_size(shape(start), shape(stop))),
    **dict.fromkeys((np.quantile, np.percentile, np.nanquantile, np.nanpercentile), _quantile_entries),
    np.meshgrid: lambda *xi, **_: len(xi) * math.prod(size(x) for x in xi), np.kron: lambda a, b: size(a) * size(b),
    np.broadcast_arrays: lambda *args, **_: len(args) * _broadcast_size(*map(shape, args)),
    **dict.fromkeys((np.zeros_like, np.ones_like, np.full_like, FUNCTIONS["zeros_like"], FUNCTIONS["ones_like"]),
                    lambda a, shape=None, **_: size(a) if shape is None else _product_of_sizes(shape)),
    **dict.fromkeys((np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.irfft, np.fft.hfft, np.fft.ihfft), _fft),
    **dict.fromkeys((np.fft.fftn, np.fft.ifftn, np.fft.rfftn, np.fft.irfftn), _fftn),
    **dict.fromkeys((np.fft.fft2, np.fft.ifft2, np.fft.rfft2, np.fft.irfft2), _fftn),
    np.linalg.multi_dot: _multi_dot, np.linalg.svd: _svd, np.linalg.qr: _qr,
    np.linalg.lstsq: lambda a, b, **_: shape(a)[-1] * max(1, size(b) // max(1, shape(b)[0])) + size(a) + size(b),
    np.linalg.solve: _solve_entries, np.linalg.eigh: lambda a, UPLO="L": 2 * size(a),
    np.linalg.slogdet: lambda a: 2 * max(1, size(a) // max(1, math.prod(shape(a)[-2:]))),
    np.gradient: lambda f, *varargs, **_: size(f) * max(1, len(shape(f))),
    np.polyint: lambda p, m=1, k=None: size(p) + int(m), np.poly: lambda seq_of_zeros: size(seq_of_zeros) + 1,
    np.polyfit: lambda x, y, deg, **_: (int(deg) + 1) * (size(x) + 1),
    networks.one_hot: lambda k, num_classes: np.size(k) * int(num_classes),
    networks.scaled_dot_product_attention: _attention_entries, networks.linear: _dense_entries,
    networks.embedding: lambda indices, w: np.size(indices) * _slice_entries(w, 0),
    networks.batch_norm: _channel_norm_entries, networks.instance_norm: _channel_norm_entries,
    networks.group_norm: lambda x, num_groups, w=1.0, b=0.0, eps=0.0: _channel_norm_entries(x, w, b),
    networks.nll_loss: lambda logp, y, reduction="mean": _broadcast_size(
        shape(logp), (*shape(y), 1) if len(shape(y)) < len(shape(logp)) else shape(y)),
}  # fmt: skip
_BY_NAME: dict[str, Count] = {
    "matvec": lambda a, x: _broadcast_size(shape(a)[:-2], shape(x)[:-1]) * shape(a)[-2],
    "vecmat": lambda x, a: _broadcast_size(shape(x)[:-1], shape(a)[:-2]) * shape(a)[-1],
    **dict.fromkeys(
        ("cumulative_sum", "cumulative_prod"), lambda x, axis=None, **_: size(x) + _slice_entries(x, axis or 0)
    ),
    **dict.fromkeys(
        ("modf", "divmod", "sici", "shichi", "fresnel"), lambda **xs: 2 * _broadcast_size(*map(shape, xs.values()))
    ),
}
ENTRIES |= {FUNCTIONS[name]: count for name, count in _BY_NAME.items() if name in FUNCTIONS}  # numpy 2 has more


def _range_entries(*bounds: Any) -> int:
    """Return the entries of an arange. Raises ValueError without an end, with a step of 0 or with infinite bounds."""
    ends = [float(plain_value(x)) for x in bounds]
    if not ends:
        raise ValueError("arange needs an end")
    start, stop, step = (0.0, ends[0], 1.0) if len(ends) == 1 else (*ends, 1.0)[:3]
    if step == 0 or not math.isfinite((stop - start) / step):
        raise ValueError("arange needs a step that is not 0, and finite bounds")
    return max(0, math.ceil((stop - start) / step))


def _whole(x: Any) -> int:
    return int(plain_value(x))


# fmt: off
_CONSTRUCTED: dict[str, Count] = {  # what is wrong with their arguments is said
    **dict.fromkeys(("zeros", "ones", "full"), lambda shape=(), value=0: math.prod(
        map(_whole, shape if isinstance(shape, list | tuple | np.ndarray) else (shape,)))),
    **dict.fromkeys(("eye", "identity"), lambda n: _whole(n) ** 2),
    **dict.fromkeys(("fftfreq", "rfftfreq"), lambda n, d=1.0: _whole(n)),
    **dict.fromkeys(("bartlett", "blackman", "hamming", "hanning", "kaiser"), lambda M, beta=0.0: _whole(M)),
    "onehot": lambda k, n: _whole(n), "linspace": lambda start, stop, num=50: _whole(num), "arange": _range_entries,
    "tri": lambda N, M=None, k=0: _whole(N) * _whole(N if M is None else M),
}
# fmt: on
CONSTRUCTED = {CONSTRUCTORS[name]: count for name, count in _CONSTRUCTED.items()}


# Steps: operations that run one after the other, each of which is recorded.


def _count_pieces(ary: Any, indices_or_sections: Any, axis: Any = 0) -> int:
    at = indices_or_sections
    return int(at) if np.ndim(at) == 0 else len(at) + 1


STEPS: dict[Any, Count] = {
    np.vander: lambda x, N=None, increasing=False: size(x) if N is None else int(N), np.polyval: lambda p, x: size(p),
    np.polydiv: lambda u, v: max(0, size(u) - size(v) + 1) * size(v) + size(u), np.polyder: lambda p, m=1: int(m),
    np.poly: lambda seq_of_zeros: size(seq_of_zeros), np.polyint: lambda p, m=1, k=None: int(m),
    np.polyfit: lambda x, y, deg, **_: int(deg), np.diff: lambda a, n=1, **_: int(n),
    **dict.fromkeys((np.array_split, np.split, np.hsplit, np.vsplit, np.dsplit), _count_pieces),
    **dict.fromkeys((networks.logcumsumexp, networks.cummax, networks.cummin),
                    lambda x, axis=-1: shape(x)[int(axis)] if shape(x) else 1),
    networks.multigammaln: lambda a, d: int(d), networks.polygamma: lambda n, x: int(n) // 10,
    **dict.fromkeys((np.quantile, np.percentile), lambda a, q, **_: np.size(q)),
    **dict.fromkeys((np.nanquantile, np.nanpercentile),
                    lambda a, q, axis=None, **_: np.size(q) * (1 if axis is None else size(a))),
    np.nanmedian: lambda a, axis=None, **_: 1 if axis is None else size(a),
}  # fmt: skip
for _name in (name for name in FUNCTIONS if name.startswith("eval_")):  # scipy's polynomials: a degree of 10**6 at most
    STEPS[FUNCTIONS[_name]] = lambda **xs: math.ceil(float(np.max(np.abs(plain_value(xs["x1"])), initial=1.0)) / 500)
if "unstack" in FUNCTIONS:
    STEPS[FUNCTIONS["unstack"]] = lambda x, axis=0: shape(x)[int(axis)]


# Multiply-adds; those that run one by one, and not by BLAS, count for more.

_ALONE = 16


def _pair_products(a: Any, v: Any, **_: Any) -> int:
    return _ALONE * size(a) * size(v)


def _einsum_products(subscripts: str, *operands: Any, **_: Any) -> int:
    """Return how often the innermost statement of an einsum runs."""
    return _ALONE * math.prod(_einsum_sizes(subscripts, operands)[1].values())


PRODUCTS: dict[Any, Count] = {
    np.einsum: _einsum_products, linalg.einsum: _einsum_products, np.matmul: lambda a, b: _matmul(a, b) * shape(a)[-1],
    np.convolve: _pair_products, np.correlate: _pair_products,
    np.polymul: lambda a1, a2: _pair_products(a1, a2),
    np.polyval: lambda p, x: size(p) * size(x), np.poly: lambda seq_of_zeros: size(seq_of_zeros) ** 2,
    np.polyfit: lambda x, y, deg, **_: size(x) * (int(deg) + 1) ** 2,
}  # fmt: skip


def bound_on_entries(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> int:
    """Return an upper bound on the entries of `function(*args, **kwargs)`; 0 if the shapes do not fit."""
    if function in CONSTRUCTED:
        return CONSTRUCTED[function](*args, **kwargs)
    shapes = [shape(x) for x in _flatten_lists([*args, *kwargs.values()])]
    if function in ENTRIES:
        return look_up_count(ENTRIES, function, args, kwargs)
    if function in _BROADCASTING or isinstance(function, Primitive | np.ufunc):
        return _broadcast_size_or_zero(*shapes)
    return max(_broadcast_size_or_zero(*shapes), sum(math.prod(s) for s in shapes))


def look_up_count(
    table: dict[Any, Count], function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> int:
    """Return what a table says of a call; 0 for a function that is not there, and for arguments that do not fit."""
    count, signature = table.get(function), call_signature(function) if function in table else None
    if count is None or signature is None:
        return 0
    try:
        bound = signature.bind(*args, **kwargs)
        if any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values()):
            return count(*bound.args, **bound.kwargs)
        return count(**bound.arguments)
    except (ValueError, IndexError, TypeError, OverflowError):
        return 0


def _broadcast_size_or_zero(*shapes: Shape) -> int:
    try:
        return math.prod(np.broadcast_shapes(*shapes))
    except ValueError:
        return 0


def _flatten_lists(values: Sequence[Any]) -> list[Any]:
    return [x for value in values for x in (_flatten_lists(value) if isinstance(value, list | tuple) else [value])]


# How much memory is free, so that an array that does not fit is refused before it is allocated.

_UNKNOWN = 2**40  # bytes, so many that only the limits on entries apply where the system reports nothing


def memory_bytes() -> int:
    """Return the bytes that can be allocated now: the system's free memory, or less if a container limits it."""
    free = contained = _UNKNOWN
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        contained = int((group / "memory.max").read_text()) - int((group / "memory.current").read_text())
    with contextlib.suppress(OSError, ValueError, AttributeError):
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), free)
    return min(free, contained)


class Ledger:
    """Counts the entries of all values of one run; refuses a value, or a total, that is over the limit."""

    def __init__(self) -> None:
        self.total = 0

    def admit(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Refuse a call whose result would be too large, or that would take too long. Raises TooLarge."""
        self.enter(bound_on_entries(function, args, kwargs))
        for table, most, what, do in (
            (STEPS, MAX_STEPS, "steps", "use fewer terms, or arrays"),
            (PRODUCTS, MAX_PRODUCTS, "multiply-adds", "use smaller arrays"),
        ):
            count = look_up_count(table, function, args, kwargs)
            if count > most:
                raise TooLarge(f"this call would take {count:,} {what}; the limit is {most:,}", do=do)

    def enter(self, count: int) -> None:
        """Count a value of `count` entries; refuse it if it, or the total, would be too large. Raises TooLarge."""
        self.total += count
        says = None
        if count > MAX_ENTRIES:
            says = f"the result would have {count:,} entries; the limit is {MAX_ENTRIES:,}"
        elif count > _SMALL and 8 * count > memory_bytes():
            says = f"an array of {count:,} entries does not fit into the memory that is free"
        elif self.total > MAX_TOTAL:
            says = f"all values together would have over {MAX_TOTAL:,} entries"
        if says is not None:
            raise TooLarge(says, do="use smaller arrays")
