"""Which calls are kept: the first, the largest, and others of which each has the same chance."""

import math
from collections import Counter

from gradcli.project.capture.recorder import FIRST, LARGEST, Drawn, Room
from tests.rows import for_rows


def kept(drawn: Drawn, norms: list[float]) -> dict[int, int]:
    """Return the number of the call that is kept at each place."""
    places: dict[int, int] = {}
    for number, norm in enumerate(norms, 1):
        places.update(dict.fromkeys(drawn.places(norm), number))
    return places


def test_the_first_call_and_that_of_the_largest_norm_are_kept() -> None:
    found = kept(Drawn(3, "seed"), [1.0, 5.0, 2.0, 9.0, 3.0, 9.1])
    assert (found[FIRST], found[LARGEST]) == (1, 4)  # 9.1 is larger by a percent, which does not count


def test_the_same_seed_draws_the_same_calls() -> None:
    norms = [0.0] * 1000
    assert kept(Drawn(5, "seed"), norms) == kept(Drawn(5, "seed"), norms) != kept(Drawn(5, "other"), norms)


@for_rows("keep", [1, 2, 3, 10])
def test_no_more_calls_are_kept_than_wanted(keep: int) -> None:
    assert len(kept(Drawn(keep, "seed"), [math.sin(n) for n in range(500)])) <= keep


def test_without_a_norm_all_but_the_first_are_drawn() -> None:
    found = kept(Drawn(4, "seed", seeks_largest=False), [0.0] * 100)
    assert sorted(found) == [FIRST, 0, 1, 2]


def test_each_call_has_the_same_chance() -> None:
    drawn, calls = 4000, 40
    counts = Counter(kept(Drawn(2, f"seed {n}", seeks_largest=False), [0.0] * calls)[0] for n in range(drawn))
    share = drawn / (calls - 1)
    assert set(counts) == set(range(2, calls + 1))
    assert all(abs(count - share) < 5 * math.sqrt(share) for count in counts.values())


def test_room_is_taken_and_given_back() -> None:
    room = Room(100)
    assert room.take(60)
    assert not room.take(60)
    room.give_back(60)
    assert room.take(60)
