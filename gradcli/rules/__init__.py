"""The rule table. Importing it declares every primitive; it needs numpy only.

A handler without a docstring takes the arguments of the numpy function in its decorator, and returns what that returns.
"""

from gradcli.rules import (  # noqa: F401  (each declares its primitives, or makes functions of numpy known)
    composites,
    constants,
    elementwise,
    fourier,
    linalg,
    methods,
    pairs,
    reductions,
    shaping,
    sorting,
    special,
)
