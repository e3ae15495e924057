"""What the tests of the frameworks share: processes that have loaded one, and settings for programs of a few numbers."""

import os
from collections.abc import Callable, Iterator
from functools import cache

# Before a framework is loaded: threads that wait for work, and optimizations, take longer than the work.
os.environ |= {"OMP_NUM_THREADS": "1", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}

import pytest

from tests.documents.running import environment
from tests.loaded import Loaded


@pytest.fixture(name="loaded", scope="session")
def _loaded() -> Iterator[Callable[..., Loaded]]:
    """Return the process that has loaded some frameworks, which is started when it is first asked for."""
    started: list[Loaded] = []

    @cache
    def loaded(*frameworks: str) -> Loaded:
        started.append(Loaded(*frameworks, environ=environment() | {"TF_CPP_MIN_LOG_LEVEL": "3"}))
        return started[-1]

    yield loaded
    for each in started:
        each.close()
