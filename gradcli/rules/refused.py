"""The functions of numpy that have no rule, each with a reason, and the partition of numpy into four groups.

`partition()` puts every public function of numpy, numpy.linalg and numpy.fft into one of the groups primitive, composite,
constant and refused.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.rules.constants import CONSTANTS
from gradcli.tracing.bind import HANDLERS, REASONS
from gradcli.tracing.primitive import PRIMITIVES, Primitive

MODULES = {"": np, "linalg.": np.linalg, "fft.": np.fft}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why functions have no derivative rule, what to write instead, and which functions they are."""

    why: str
    do: str
    names: str


# fmt: off
REFUSED: tuple[Reason, ...] = (
    Reason("it works on integers or bits", "pass what it works on as integer inputs",
           "bitwise_and bitwise_or bitwise_xor bitwise_invert bitwise_not bitwise_left_shift bitwise_right_shift bitwise_count "
           "invert left_shift right_shift gcd lcm packbits unpackbits"),
    Reason("its value is the grid of float64 around a number, not a function of real numbers", "leave it out",
           "nextafter spacing"),
    Reason("counts jump where a value crosses an edge", "np.bincount(np.digitize(x, edges), weights=w) for sums of weights",
           "histogram histogram2d histogramdd histogram_bin_edges"),
    Reason("which entries it keeps depends on which are exactly equal, or exactly 0", "np.unique, or index with a mask",
           "intersect1d union1d setdiff1d setxor1d isin unique_all unique_counts unique_inverse unique_values trim_zeros"),
    Reason("roots and eigenvalues of a matrix that is not symmetric may be complex, or have no derivative",
           "np.linalg.eigh, or np.linalg.eigvalsh", "roots linalg.eig linalg.eigvals"),
    Reason("it orders complex numbers", "np.sort", "sort_complex"),
    Reason("it takes or makes positions, which are integers", "compute positions from plain arrays",
           "lexsort ravel_multi_index unravel_index ix_ einsum_path"),
    Reason("it works on dates", "pass plain numbers",
           "busday_count busday_offset is_busday isnat datetime_as_string datetime_data"),
    Reason("it writes a file, where derivatives are lost", "leave it out of the function",
           "save savetxt savez savez_compressed"),
    Reason("it makes a plain array or a matrix of another kind", "np.asarray, np.block or np.stack",
           "asfortranarray require asmatrix bmat"),
    Reason("it makes a function of Python objects", "np.vectorize, or a loop", "frompyfunc"),
    Reason("it takes its values from an iterator", "np.stack", "fromiter"),
)
CREATED = """
    arange bartlett blackman diag_indices empty eye frombuffer fromfile fromfunction fromregex fromstring from_dlpack full
    genfromtxt hamming hanning identity indices kaiser load loadtxt mask_indices ones tri tril_indices triu_indices zeros
    fft.fftfreq fft.rfftfreq
    base_repr binary_repr broadcast_shapes format_float_positional format_float_scientific isdtype isfortran issubdtype
    iterable mintypecode promote_types typename
"""  # functions of sizes, plain numbers and types: no argument can be traced
STAND_INS = "array asarray_chkfinite row_stack"  # these do not dispatch to tracers; targets/ replaces them in a trace
NO_VALUES = """
    get_include get_printoptions getbufsize geterr geterrcall info printoptions set_printoptions setbufsize seterr seterrcall
    show_config show_runtime test linalg.test fft.test nested_iters
"""  # settings and the like, which neither take nor return values
# fmt: on


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield every public function of numpy, numpy.linalg and numpy.fft, by its name after `numpy.`."""
    for prefix, module in MODULES.items():
        for name in dir(module):
            function = getattr(module, name)
            if callable(function) and not isinstance(function, type) and not name.startswith("_"):
                yield prefix + name, function


def refused() -> dict[str, Reason]:
    """Return the refused functions with their reasons."""
    return {name: reason for reason in REFUSED for name in reason.names.split()}


def partition() -> dict[str, str]:
    """Return the group of each public function: `primitive`, `composite`, `constant` or `refused`.

    Functions that neither take nor return values (settings, `numpy.test`) are left out.
    """
    without_rule, created, replaced = refused(), set(CREATED.split()), set(STAND_INS.split())
    found = {}
    for name, function in public():
        handler = HANDLERS.get(function)
        row = handler if isinstance(handler, Primitive) else PRIMITIVES.get(getattr(function, "__name__", name))
        if name in without_rule:
            found[name] = "refused"
        elif name in created or function in CONSTANTS or (isinstance(handler, Primitive) and handler.constant):
            found[name] = "constant"
        elif handler is not None:
            found[name] = "primitive" if row is not None and row.rules else "composite"
        elif name in replaced:
            found[name] = "composite"
    return found


def _declare() -> None:
    for name, reason in refused().items():
        prefix, _, last = name.rpartition(".")
        function = getattr(MODULES[prefix + "." if prefix else ""], last, None)
        if function is not None:
            REASONS[function] = (reason.why, reason.do)


_declare()
