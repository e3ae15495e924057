"""The decorator that declares a check beside the function that is checked. It is read from the source, never called for it."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def checked(**options: Any) -> Callable[[F], F]:
    """Declare a check of a function for `gradcli check`, and return the function untouched.

    The keywords are the options of a check in a suite, with underscores: `grad` is a name, all others are literals.

    >>> @checked(grad="square_grad", at="x=[1, 2, 3]")
    ... def square(x):
    ...     return (x * x).sum()
    """
    return lambda function: function
