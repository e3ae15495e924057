"""Where each public function of numpy stands: primitive, composite, constant, or refused with a reason."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradcli.rules.constants import MODULES, refused
from gradcli.tracing.primitive import HANDLERS, PRIMITIVES, Primitive

# fmt: off
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
WITHOUT_DERIVATIVE: set[Callable[..., Any]] = {
    np.argmax,
    np.argmin,
    np.argsort,
    np.argpartition,
    np.nanargmax,
    np.nanargmin,
    np.searchsorted,
    np.digitize,
    np.zeros_like,
    np.ones_like,
    np.empty_like,
    np.iscomplexobj,
    np.iscomplex,
    np.isreal,
    np.linalg.matrix_rank,
    np.fix,
}  # fmt: skip
WITHOUT_DERIVATIVE |= {f for f, handler in HANDLERS.items() if getattr(handler, "__module__", "") == refused.__module__}


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield every public function of numpy, numpy.linalg and numpy.fft, by its name after `numpy.`."""
    for prefix, module in MODULES.items():
        for name in dir(module):
            function = getattr(module, name)
            if callable(function) and not isinstance(function, type) and not name.startswith("_"):
                yield prefix + name, function


def group_functions() -> dict[str, str]:
    """Return the group of each public function: `primitive`, `composite`, `constant` or `refused`.

    Functions that neither take nor return values (settings, `numpy.test`) are left out.
    """
    without_rule, created, replaced = refused(), set(CREATED.split()), set(STAND_INS.split())
    found = {}
    for name, function in public_functions():
        handler = HANDLERS.get(function)
        row = handler if isinstance(handler, Primitive) else PRIMITIVES.get(getattr(function, "__name__", name))
        if name in without_rule:
            found[name] = "refused"
        elif name in created or function in WITHOUT_DERIVATIVE or (isinstance(handler, Primitive) and handler.constant):
            found[name] = "constant"
        elif handler is not None:
            found[name] = "primitive" if row is not None and row.rules else "composite"
        elif name in replaced:
            found[name] = "composite"
    return found
