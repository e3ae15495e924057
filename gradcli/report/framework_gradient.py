"""What a check found of a framework's function: its other ways to differentiate; and of what was checked alone, as layers are."""

from collections.abc import Sequence

from gradcli.classes import dataclass
from gradcli.report import numbers
from gradcli.report.blocks import Block, Cell, Paragraph, Piece, Table, Tone, Verbatim
from gradcli.report.common import ABSENT, Absent
from gradcli.words import AspectStatus, RanOn, Verdict

_WORTH = 1e-3  # seconds: what runs quicker has no cost to speak of
_TONES: dict[str, Tone] = {"agrees": "good", "wrong": "bad", "differs": "unsure"}
_ALONE: dict[Verdict, tuple[str, Tone]] = {Verdict.PASS: ("right", "good"), Verdict.FAIL: ("wrong", "bad")}


@dataclass(frozen=True, slots=True)
class Aspect:
    """One more way in which the framework differentiates, and how far it is from what is right, relative to it.

    name        The way to differentiate, such as `second run` or `forward mode`.
    status      Whether it gives the right gradient, and if it did not run, why.
    difference  The largest difference from what is right, relative to the largest entry.
    allowed     The largest relative difference that rounding explains.
    message     What is to be known of it, as a sentence.
    """

    name: str
    status: AspectStatus
    difference: float | Absent = ABSENT
    allowed: float | Absent = ABSENT
    message: str | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class Part:
    """A custom gradient or a layer that was met on the way, checked alone at the values it really saw.

    name     The name of the custom gradient, or the path of the layer with its class.
    verdict  The verdict on it alone.
    detects  The smallest relative error that would have been seen.
    message  Why it is not confirmed, as a sentence.
    file     The file of its backward function.
    line     The line of its backward function, counted from 1.
    source   The text of this line.
    reached  Whether the inputs of the function move its arguments in directions in which it is not the derivative.
    ignores  Whether its backward returns the same for another cotangent.
    """

    name: str
    verdict: Verdict
    detects: float | Absent = ABSENT
    message: str | Absent = ABSENT
    file: str | Absent = ABSENT
    line: int | Absent = ABSENT
    source: str | Absent = ABSENT
    reached: bool | Absent = ABSENT
    ignores: bool | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class Exactness:
    """How exact a gradient in a narrow format is: errors in ulps of each entry, and as a share of what is allowed.

    `vanished` entries are zero in the format and not in truth.

    median_ulps   The median error of an entry, in units in its last place.
    largest_ulps  The largest error of an entry, in units in its last place.
    share         The largest error as a share of what the format allows; above 1 is too inexact.
    vanished      The number of entries that are zero in the format and not in truth.
    ratio         The error over the typical error of the same formula in the format: a root mean square, of the worst input.
    largest_ratio  The same of the entry where it is largest.
    """

    median_ulps: float
    largest_ulps: float
    share: float
    vanished: int = 0
    ratio: float | Absent = ABSENT
    largest_ratio: float | Absent = ABSENT

    def in_words(self, dtype: str) -> str:
        """Return how exact it is, in this format."""
        median, largest = numbers.two_digits(self.median_ulps), numbers.two_digits(self.largest_ulps)
        says = f"off by {median} ulps (median), {largest} at most"
        if isinstance(self.ratio, float) and isinstance(self.largest_ratio, float):
            says += f": {numbers.two_digits(self.ratio)} times the error of the same formula in {dtype}"
            says += f" ({numbers.two_digits(self.largest_ratio)} times in the worst entry)"
        if self.vanished:
            says += f"; {self.vanished:,} entr{'y is' if self.vanished == 1 else 'ies are'} 0 and should not be"
        return says


@dataclass(frozen=True, slots=True)
class GradientCost:
    """What a gradient cost: seconds forward and backward, bytes kept in between, and at most on a GPU.

    forward_seconds   The time of one evaluation, in seconds.
    backward_seconds  The time of the backward pass, in seconds.
    saved_bytes       The memory kept between the two, in bytes.
    peak_bytes        The most memory taken on a GPU, in bytes.
    """

    forward_seconds: float
    backward_seconds: float
    saved_bytes: int
    peak_bytes: int | Absent = ABSENT

    def in_words(self) -> str:
        """Return the times and the memory."""
        forward, backward = map(numbers.write_seconds, (self.forward_seconds, self.backward_seconds))
        peak = f", {numbers.write_bytes(self.peak_bytes)} at the peak" if isinstance(self.peak_bytes, int) else ""
        kept = numbers.write_bytes(self.saved_bytes)
        return f"forward {forward}, backward {backward}; {kept} kept in between{peak}"


@dataclass(frozen=True, slots=True)
class NativeReport:
    """The framework, where and in which format it ran, its other ways to differentiate, and the parts.

    framework  The framework that the function is written in.
    version    The version of the framework.
    device     The device that it ran on, such as cpu or cuda:0.
    dtype      The format whose gradient was checked, such as float32.
    aspects    The framework's other ways to differentiate, each compared with what is right.
    parts      The custom gradients met on the way, each checked alone.
    exactness  How exact the gradient is in a narrow format.
    cost       What the gradient cost.
    declined   The inputs that are numbers, and that a custom backward returns None for: they are not differentiated.
    """

    framework: str
    version: str
    device: str
    dtype: str
    aspects: tuple[Aspect, ...] = ()
    parts: tuple[Part, ...] = ()
    exactness: Exactness | Absent = ABSENT
    cost: GradientCost | Absent = ABSENT
    declined: tuple[str, ...] | Absent = ABSENT

    def blocks(self) -> list[Block]:
        """Return what people read of it."""
        blocks: list[Block] = [Paragraph(RanOn(self.framework, self.version, self.device, self.dtype).says())]
        if self.exactness:
            blocks.append(Paragraph(self.exactness.in_words(self.dtype)))
        if self.cost and (self.cost.forward_seconds >= _WORTH or self.device != "cpu"):
            blocks.append(Paragraph(self.cost.in_words()))
        rows = [(aspect.name, aspect_cell(aspect)) for aspect in self.aspects]
        blocks += [Table(("also", ""), rows)] if rows else []
        for part in self.parts:
            name, (word, tone) = f"{part.name} ", _ALONE.get(part.verdict, ("inconclusive", "unsure"))
            says = f" to better than {numbers.write_bound(part.detects)}" if word == "right" and part.detects else ""
            says += f": {part.message}" if part.message else ""
            blocks.append(Paragraph((Piece(name, "strong"), Piece("alone is "), Piece(word, tone), Piece(says))))
            if word != "right" and part.source and part.file:
                blocks.append(Paragraph(Verbatim(f"{part.file}:{part.line}    {part.source}", "dim"), 4))
        return blocks


def aspect_cell(aspect: Aspect) -> Cell:
    """Return how one way to differentiate turned out, in words."""
    says = aspect.status + (f" ({numbers.write_bound(aspect.difference)})" if aspect.difference else "")
    return Piece(says + (f": {aspect.message}" if aspect.message else ""), _TONES.get(aspect.status, "dim"))


def layer_blocks(layers: Sequence[Part], whole: Verdict, word: str = "layer") -> list[Block]:
    """Return what people read of the layers of a network, each checked alone, and what follows if all of them are right.

    `word` says what they are.
    """
    if not layers:
        return []
    rows = []
    for part in layers:
        at = f" ({part.file}:{part.line})" if part.file else ""
        if part.verdict == Verdict.PASS:
            better = f" to better than {numbers.write_bound(part.detects)}" if part.detects else ""
            cell = Piece(f"right{better}", "good")
        elif part.verdict == Verdict.FAIL and whole == Verdict.PASS:  # as softmax alone, before its loss, is
            cell = Piece(f"not the derivative of its forward pass{at}; what calls it is right", "unsure")
        elif part.verdict == Verdict.FAIL:
            cell = Piece(f"wrong: {part.message}{at}", "bad")
        else:
            cell = Piece(part.message or "cannot be told", "unsure")
        rows.append((part.name, cell))
    blocks: list[Block] = [Table((f"{word}, from the loss backwards", "alone"), rows)]
    if whole == Verdict.FAIL and not any(part.verdict == Verdict.FAIL for part in layers):
        known = "" if all(part.verdict == Verdict.PASS for part in layers) else ", as far as they were checked"
        blocks.append(Paragraph(f"No {word} is wrong where it is called first{known}: look at what calls them."))
    return blocks
