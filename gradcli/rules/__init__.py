"""The rule table. Importing it declares every primitive; it needs numpy only.

A handler without a docstring takes the arguments of the numpy function in its decorator, and returns what that returns.
"""

from gradcli.rules import (  # noqa: F401  (each declares its primitives, or adds functions to numpy's that are known)
    complexes,
    composites,
    constants,
    decompositions,
    elementwise,
    fourier,
    implicit,
    incomplete,
    linalg,
    methods,
    pairs,
    reductions,
    shaping,
    sorting,
    special,
)
