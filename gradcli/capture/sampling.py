"""Which calls of a gradient are kept: the first, the one of largest norm, and others drawn evenly."""

import math
import random
import threading

FIRST, LARGEST = -1, -2  # places of a kept call; the drawn ones are counted from 0
_LARGER, _STRICTER, _MOST_LARGER = (
    1.02,
    1.05,
    1.5,
)  # times the squared norm so far: less is not kept, so that slow growth does
# not keep every call; with each call that is kept, more is asked for


class Drawn:
    """The calls of one gradient with arguments of the same shapes and formats, of which a few are kept.

    Calls are drawn so that each has the same chance, whatever their number, and that most calls cost one comparison.

    Source  Li (1994), Reservoir-sampling algorithms of time complexity O(n(1 + log(N/n))), algorithm L.
    """

    __slots__ = (
        "_count",
        "_keep",
        "_larger",
        "_random",
        "_seed",
        "_seeks_largest",
        "_weight",
        "following",
        "largest",
        "seen",
    )

    def __init__(self, keep: int, seed: str, *, seeks_largest: bool = True) -> None:
        self._keep, self._seed, self._seeks_largest = keep, seed, seeks_largest and keep > 1
        self.restart()

    def restart(self) -> None:
        """Begin again, as before the first call."""
        self.seen = 0
        self.largest = 0.0 if self._seeks_largest else math.inf
        self._count = self._keep - 1 - self._seeks_largest
        self._random = random.Random(self._seed)
        self._weight = 1.0
        self._larger = _LARGER
        self.following = 2 if self._count else 0  # the number of the next call that is drawn; 0 for none

    def places(self, norm: float) -> tuple[int, ...]:
        """Return where the next call is kept; `norm` is that of its input, 0 if it is not known."""
        self.seen += 1
        if self.seen == 1:
            self.largest = max(self.largest, norm)
            return (FIRST,)
        found: tuple[int, ...] = (self._drawn(),) if self.seen == self.following else ()
        if norm > self._larger * self.largest:
            self.largest = norm
            self._larger = min(_MOST_LARGER, self._larger * _STRICTER)
            found = (*found, LARGEST)
        return found

    def _drawn(self) -> int:
        """Return the place of the call that is drawn now, and choose the next one."""
        filled = self.seen - 2
        slot = filled if filled < self._count else self._random.randrange(self._count)
        if filled + 1 < self._count:
            self.following += 1
            return slot
        self._weight *= math.exp(math.log(1.0 - self._random.random()) / self._count)
        skipped = math.log(1.0 - self._random.random()) / math.log1p(-self._weight) if self._weight < 1 else 0.0
        self.following += int(skipped) + 1
        return slot


class Room:
    """The bytes that kept values may take, shared by all gradients of a program."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Take bytes; return whether there were enough."""
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True

    def holds(self, size: int) -> bool:
        """Whether there is room for so many bytes."""
        return size <= self._left

    def give_back(self, size: int) -> None:
        """Give back the bytes of a call that is no longer kept."""
        with self._lock:
            self._left += size
