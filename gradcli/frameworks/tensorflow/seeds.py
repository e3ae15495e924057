"""Random numbers that are the same at every call."""

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import random_seed


class _Last:
    """The seed that was set last, and whether random numbers were drawn since."""

    seed: int | None = None
    drawn = False


def drawn() -> bool:
    """Whether random numbers were drawn since the seed was set last."""
    return _Last.drawn


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run the block with seeded random numbers, including those that Keras draws from Python's generator.

    Setting a seed makes TensorFlow discard its compiled functions, so it is set again only after numbers were drawn.
    """
    before, own = random.getstate(), random_seed.get_seed

    def get_seed(op_seed: int | None) -> Any:
        _Last.drawn = True
        return own(op_seed)

    if _Last.drawn or _Last.seed != seed:
        tf.random.set_seed(seed)
        _Last.seed, _Last.drawn = seed, False
    random.seed(seed)
    random_seed.get_seed = get_seed
    try:
        yield
    finally:
        random_seed.get_seed = own
        random.setstate(before)
