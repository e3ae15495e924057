"""Spans of places along an axis, `1:` or `:-2`, as far as they can be compared without knowing how long the axis is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """Places from a start to a stop; a bound counts from the start of the axis or, where it is below 0, from its end.

    A stop of 0 is the end itself.
    """

    start: int
    stop: int

    def before(self, other: "Span") -> bool:
        """Whether all of it is known to lie before all of another."""
        return (self.stop <= 0) == (other.start < 0) and self.stop <= other.start and self.stop != 0

    def apart(self, other: "Span") -> bool:
        """Whether two spans are known to have no place in common."""
        return self.before(other) or other.before(self)

    def within(self, other: "Span") -> bool:
        """Whether all of it is known to lie in another span."""
        first = (self.start < 0) == (other.start < 0) and self.start >= other.start
        last = (self.stop <= 0) == (other.stop <= 0) and self.stop <= other.stop
        return (first or other.start == 0) and (last or other.stop == 0)


def span_of(text: str) -> Span | None:
    """Return a slice of neighbouring places as a span; None for a list of places, or steps."""
    start, colon, stop = text.partition(":")
    if not colon or ":" in stop or (stop and int(stop) == 0):
        return None
    return Span(int(start or 0), int(stop or 0))


def at(place: int) -> Span:
    """Return the span of one place."""
    return Span(place, place + 1)
