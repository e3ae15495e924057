"""Conversion of unusual error types of users' rules and frameworks into RuntimeError, which callers expect."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from gradcli.errors import GradcliError

_NOISE = re.compile(r"\{\{[^{}]*\}\}|\[Op:\w+\]|\bname: *$")


@contextmanager
def told() -> Iterator[None]:
    """Re-raise errors of unusual types as a RuntimeError subclass of the same name, with the message cleaned up."""
    try:
        yield
    except (GradcliError, RuntimeError, TypeError, ValueError):
        raise
    except Exception as error:
        said = " ".join(_NOISE.sub("", str(error)).split())
        named = type(type(error).__name__, (RuntimeError,), {})
        raise named(said).with_traceback(error.__traceback__) from error
