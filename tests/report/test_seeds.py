"""A seed that was drawn is named, with the words that repeat the run; a seed that the user gave is not."""

import pickle

import pytest

from gradcli.report.blocks import Paragraph
from gradcli.report.common import seed_line
from gradcli.report.encode import encode
from gradcli.request.option_values import RandomSeed, seed_words

LARGE = 2**64 - 1


@pytest.mark.parametrize("seed", [0, 7, LARGE])
def test_a_seed_of_the_user_is_not_named(seed: int) -> None:
    assert seed_words(seed) == seed_line(seed) == ()


@pytest.mark.parametrize("seed", [0, 7, LARGE])
def test_a_drawn_seed_is_named(seed: int) -> None:
    assert seed_words(RandomSeed(seed)) == ("--seed", str(seed))
    assert seed_line(RandomSeed(seed)) == (Paragraph(f"The seed was drawn: --seed {seed} repeats this."),)
    assert seed_line(RandomSeed(seed), 0, repeats=False) == (Paragraph(f"The seed {seed} was drawn.", 0),)


def test_a_drawn_seed_is_an_integer_in_a_document_and_stays_drawn_in_another_process() -> None:
    seed = RandomSeed(LARGE)
    assert encode(seed) == LARGE and repr(seed) == str(LARGE)
    assert isinstance(pickle.loads(pickle.dumps(seed)), RandomSeed)
