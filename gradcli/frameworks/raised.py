"""What users' rules and the frameworks raise, as errors that are expected of a framework."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from gradcli.errors import GradcliError

_NOISE = re.compile(r"\{\{[^{}]*\}\}|\[Op:\w+\]|\bname: *$")


@contextmanager
def told() -> Iterator[None]:
    """Let whatever is raised be a RuntimeError of the same name, unless it is one of the usual ones already."""
    try:
        yield
    except (GradcliError, RuntimeError, TypeError, ValueError):
        raise
    except Exception as error:
        said = " ".join(_NOISE.sub("", str(error)).split())
        named = type(type(error).__name__, (RuntimeError,), {})
        raise named(said).with_traceback(error.__traceback__) from error
