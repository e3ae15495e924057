"""Functions that no tracer can follow, each with its gradient by hand: these are checked by function values alone."""

import ctypes
import ctypes.util
import json
import math
import statistics
import subprocess
from decimal import Decimal

import numpy as np

LIBM = ctypes.CDLL(ctypes.util.find_library("m"))
LIBM.j0.restype = LIBM.j1.restype = ctypes.c_double
LIBM.j0.argtypes = LIBM.j1.argtypes = (ctypes.c_double,)
TABLE = [0.0, 0.3, 0.5, 1.2, 2.0, 2.1]
KNOTS = np.array([0.0, 1.0, 2.0, 3.0])


def takes_bytes(x):
    """Bytes of memory, read as numbers again."""
    x = np.frombuffer(x.tobytes())
    return np.sum(x**3)


def takes_bytes_gradient(x):
    """Power rule."""
    return 3 * x**2


def compiled(x):
    """A function of the C library."""
    return LIBM.j0(x) * x


def compiled_gradient(x):
    """The derivative of J0 is -J1."""
    return LIBM.j0(x) - x * LIBM.j1(x)


def another_program(x):
    """A calculation by another program."""
    command = ["awk", "-v", "x=" + str(x), 'BEGIN { printf "%.17g", x * exp(-x) }']
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def another_program_gradient(x):
    """Product rule."""
    return (1 - x) * math.exp(-x)


def looked_up(x):
    """int(x) as an index into a table, interpolated."""
    i = int(x)
    return TABLE[i] + (x - i) * (TABLE[i + 1] - TABLE[i])


def looked_up_gradient(x):
    """The slope of the piece."""
    return TABLE[int(x) + 1] - TABLE[int(x)]


def through_a_list(x):
    """ndarray.tolist and the statistics module."""
    return statistics.fmean(x.tolist()) ** 2


def through_a_list_gradient(x):
    """The mean's square."""
    return 2 * np.mean(x) / len(x) * np.ones_like(x)


def through_text(x):
    """A round trip through JSON."""
    return sum(v**2 for v in json.loads(json.dumps(list(x))))


def through_text_gradient(x):
    """A sum of squares."""
    return 2 * x


def through_a_format(x):
    """A round trip through an f-string."""
    return float(f"{x:.17g}") ** 2


def through_a_format_gradient(x):
    """A square."""
    return 2 * x


def in_decimals(x):
    """A calculation with the decimal module."""
    return float(Decimal(x).exp())


def in_decimals_gradient(x):
    """Its own."""
    return math.exp(x)


POINTS = {
    takes_bytes: {"x": np.array([0.5, -1.2])},
    compiled: {"x": 1.1},
    another_program: {"x": 0.7},
    looked_up: {"x": 2.4},
    through_a_list: {"x": np.array([1.0, 2.0, 4.0])},
    through_text: {"x": np.array([1.0, -0.7])},
    through_a_format: {"x": 1.7},
    in_decimals: {"x": 0.3},
}
