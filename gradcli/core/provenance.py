"""Which piece of the user's code is running, so that a recorded line can be traced back to it."""

from typing import Any


class Here:
    """The place in the user's program that runs now; an expression sets it, a tape reads it."""

    __slots__ = ("position",)

    def __init__(self) -> None:
        self.position: Any = None


HERE = Here()
