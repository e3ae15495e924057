"""The report of `cost`: passes, operations and bytes, counted."""

from gradcli.classes import dataclass
from gradcli.report import numbers
from gradcli.report.blocks import Bars, Block, Chart, Heading, Paragraph, Piece, Series, Table, shorten_text
from gradcli.report.common import ABSENT, Absent, Printed, Target
from gradcli.report.encode import Status


@dataclass(frozen=True, slots=True)
class Pass:
    """One way to a derivative. Units: runs of f forward, sweeps back, scalar operations, those of one f, seconds.

    name        What is computed, and how.
    forward     The number of evaluations of f, or of sweeps forward with a tangent.
    backward    The number of sweeps back.
    operations  The number of scalar operations: a product and a sum are two; null where they cannot be counted.
    ratio       The same number, in evaluations of f.
    seconds     The time of these passes, where the time of one is given (--pass-time).
    """

    name: str
    forward: int
    backward: int
    operations: int | None
    ratio: float | None
    seconds: float | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class Held:
    """One kind of memory of a training step.

    name     What is held.
    numbers  How many numbers it has; null for the peak, which sums several kinds.
    bytes    How many bytes they take.
    says     In which format, and what is assumed.
    """

    name: str
    numbers: int | None
    bytes: int
    says: str


@dataclass(frozen=True, slots=True)
class Activation:
    """Values that are kept for the reverse sweep.

    name      The operation that made them, or what they are in a model.
    place     Where the operation stands: a line of a file, or a part of an expression; empty for a model.
    function  The function of the user's in which it stands; empty for an expression or a model.
    shape     The shape of one of them; empty for a model.
    count     How many there are.
    entries   The number of entries of all.
    bytes     The bytes of all.
    read_by   The operations that read them in the reverse sweep; empty for a model.
    mask      Whether it is known which entries were chosen, and no value: one byte an entry.
    formula   The number of entries as a formula of the sizes; null where there is none.
    """

    name: str
    place: str
    function: str
    shape: tuple[int, ...]
    count: int
    entries: int
    bytes: int
    read_by: tuple[str, ...]
    mask: bool = False
    formula: str | None = None


@dataclass(frozen=True, slots=True)
class Checkpointing:
    """A choice of what is kept and what is run again.

    name        How the program is cut.
    segments    The number of segments that are run again.
    bytes       The most bytes of kept values at any time.
    operations  The number of operations that are repeated.
    percent     The same number, in percent of a gradient without checkpoints; null where that is not counted.
    """

    name: str
    segments: int
    bytes: int
    operations: int
    percent: float | None


@dataclass(frozen=True, slots=True)
class CostFormula:
    """A count as an exact polynomial of the sizes.

    name     What is counted.
    formula  The polynomial: `12 L n d^2` is 12 times L times n times the square of d.
    value    Its value at the sizes of this report.
    """

    name: str
    formula: str
    value: int


@dataclass(frozen=True, slots=True)
class JacobianChain:
    """A chain of Jacobians from an input to the result. Units: multiplications.

    input     The input that it begins with.
    sizes     The numbers of entries of the values that every path goes through; Jacobian i is sizes[i + 1] by sizes[i].
    entries   The number of entries of the largest Jacobian.
    forward   Multiplied out from the input on.
    reverse   Multiplied out from the result back.
    best      Multiplied out in the order that takes the fewest.
    products  One row times every Jacobian from the result back, without multiplying them out.
    """

    input: str
    sizes: tuple[int, ...]
    entries: int
    forward: int
    reverse: int
    best: int
    products: int


@dataclass(frozen=True, slots=True)
class Rank:
    """What each of several ranks holds, where what is divided is divided evenly.

    ranks   The number of ranks.
    stage   What is divided: 1 the optimiser's numbers, 2 the gradients too, 3 the parameters too.
    bytes   The bytes that each holds of parameters, gradients and the optimiser's numbers.
    moved   The bytes that each sends in a step.
    """

    ranks: int
    stage: int
    bytes: int
    moved: int


@dataclass(frozen=True, slots=True)
class AtSizes:
    """Counts at one choice of sizes.

    sizes        The sizes by name.
    operations   The operations of f.
    gradient     The operations of f with one reverse sweep.
    parameters   The numbers that are differentiated by.
    activations  The bytes that are kept for the reverse sweep.
    """

    sizes: dict[str, int]
    operations: int
    gradient: int
    parameters: int
    activations: int


@dataclass(frozen=True, slots=True)
class AdjointNorms:
    """How the adjoints of one operation in a loop, or in several layers, grow or vanish towards the inputs.

    name     The operation.
    place    Where it stands.
    turns    How often it runs.
    first    The norm of the adjoint of the first value, which is the furthest from the result.
    last     The norm of the adjoint of the last value.
    by_turn  By what one turn further from the result multiplies it, the geometric mean; null where a norm is 0.
    """

    name: str
    place: str
    turns: int
    first: float
    last: float
    by_turn: float | None


@dataclass(frozen=True, slots=True)
class Instant:
    """What is held at one time of a training step, besides parameters and inputs.

    line       The number of the line of the program, counted from 0.
    backward   Whether it is in the reverse sweep.
    bytes      The bytes held without checkpoints.
    """

    line: int
    backward: bool
    bytes: int


@dataclass(frozen=True, slots=True, repr=False)
class CostReport(Printed):
    """What a gradient costs, counted and not timed.

    sizes          The sizes by name.
    dtype          The format of parameters, and of values that are kept where there is no autocast.
    kept_in        The format of values that are kept for the reverse sweep.
    parameters     The number of entries that are differentiated by.
    outputs        The number of entries of the result.
    lines          The number of operations of the program; null for a model.
    passes         The ways to the derivative, with their passes and operations.
    memory         What a training step holds.
    kept           What is kept for the reverse sweep, the most bytes first.
    checkpoints    What it takes to keep less, and run parts of f again.
    formulas       Counts as polynomials of the sizes.
    at             The counts at every choice of sizes, where several were asked for.
    chain          The chain of Jacobians from one input to the result; null where there is none.
    ranks          What each of several ranks holds (--shard).
    offload        Seconds to move what is kept over a link and back (--link); null where none is given.
    measured       Seconds of one f and of one gradient here (--time); null where they are not asked for.
    norms          The norms of adjoints by operation (--norms).
    timeline       What is held over the step, the most of each stretch of lines where there are many.
    notes          What is assumed, and what the figures say, as sentences.
    environment    The versions of what the result depends on, by name, and the number of threads.
    exit_status    The exit status of this command.
    target         What was differentiated; left out for a model.
    model          The name of the model; left out for a function.
    schema         The name of this schema, with its number.
    """

    sizes: dict[str, int]
    dtype: str
    kept_in: str
    parameters: int
    outputs: int
    lines: int | None
    passes: tuple[Pass, ...]
    memory: tuple[Held, ...]
    kept: tuple[Activation, ...]
    checkpoints: tuple[Checkpointing, ...]
    formulas: tuple[CostFormula, ...]
    at: tuple[AtSizes, ...]
    chain: JacobianChain | None
    ranks: Rank | None
    offload: float | None
    measured: tuple[float, float] | None
    norms: tuple[AdjointNorms, ...]
    timeline: tuple[Instant, ...]
    notes: tuple[str, ...]
    environment: dict[str, str | int]
    exit_status: Status = 0
    target: Target | Absent = ABSENT
    model: str | Absent = ABSENT
    schema: str = "gradcli.cost/1"

    def gist(self) -> str:
        """Return the target, its parameters and what its reverse sweep keeps."""
        kept = numbers.write_decimal_bytes(sum(row.bytes for row in self.kept))
        return f"{shorten_text(self._target_name)}: {self.parameters:,} entries, {kept} kept"

    def brief(self) -> tuple[str, ...]:
        """Return the target, the passes with their operations, the memory of a step, and what is assumed."""
        counts = ((p.name, p.operations) for p in self.passes if p.operations is not None)
        counted = [f"{name}: {_write_count(operations)} operations" for name, operations in counts]
        held = [f"{row.name}: {numbers.write_decimal_bytes(row.bytes)}" for row in self.memory]
        return (self._headline(), *counted, *held, *self.notes)

    def blocks(self) -> tuple[Block, ...]:
        """Return the tables of passes, memory, kept values and checkpoints, with what they say."""
        found: list[Block] = [Paragraph(self._headline(), 0), self._pass_table()]
        if self.measured is not None:
            f, gradient = map(numbers.write_seconds, self.measured)
            found.append(Paragraph(f"measured here: f {f}, f with its gradient {gradient}"))
        if self.chain is not None:
            found.append(Paragraph(_chain_in_words(self.chain)))
        as_bytes, if_known = numbers.write_decimal_bytes, numbers.write_if_known
        held = [(m.name, if_known(m.numbers, _write_count), as_bytes(m.bytes), m.says) for m in self.memory]
        found.append(Table(("memory of a step", "numbers", "bytes", ""), held, {1, 2}))
        if self.kept:
            percent = "{:.3g} %".format
            cuts = [
                (c.name, as_bytes(c.bytes), _write_count(c.operations), if_known(c.percent, percent))
                for c in self.checkpoints
            ]
            columns = ("checkpoints", "bytes", "run again", "of a gradient")
            found += [self._kept_table(), Table(columns, cuts, {1, 2, 3})]
        if self.ranks is not None:
            found.append(Paragraph(_ranks_in_words(self.ranks)))
        if self.offload is not None:
            time = numbers.write_seconds(self.offload)
            found.append(Paragraph(f"Over the link, what is kept takes {time} out and back."))
        if self.norms:
            short = "{:.3g}".format
            norms = [
                (row.name, row.place, f"{row.turns:,}", short(row.first), short(row.last), if_known(row.by_turn, short))
                for row in self.norms
            ]
            found.append(Table(("adjoints", "at", "turns", "norm, first", "last", "a turn back"), norms, range(2, 6)))
        if self.at:
            rows = []
            for each in self.at:
                counts = map(_write_count, (each.operations, each.gradient, each.parameters))
                rows.append((*(f"{each.sizes[name]:,}" for name in self.sizes), *counts, as_bytes(each.activations)))
            names = (*self.sizes, "operations of f", "with gradient", "parameters", "kept")
            found.append(Table(names, rows, range(len(names))))
        if self.formulas:
            found.append(Heading("Formulas"))
            found += [Paragraph(f"{row.name} = {row.formula}") for row in self.formulas]
        return (*found, *(Paragraph((Piece(note, "dim"),)) for note in self.notes))

    @property
    def _target_name(self) -> str:
        return self.target.text if isinstance(self.target, Target) else str(self.model)

    def _headline(self) -> str:
        sizes = ", ".join(f"{name}={n:,}" for name, n in self.sizes.items())
        what = "parameters" if self.lines is None else "entry to differentiate by"
        what = what.replace("entry", "entries") if self.parameters != 1 else what
        return f"{shorten_text(self._target_name, 60)}{f' at {sizes}' if sizes else ''}: {self.parameters:,} {what}"

    def _pass_table(self) -> Table:
        timed = any(row.seconds is not ABSENT for row in self.passes)
        columns = ("passes", "forward", "backward", "operations", "of f", *["time"] * timed)
        rows = []
        for row in self.passes:
            counts = (numbers.write_if_known(x, _write_count) for x in (row.forward, row.backward, row.operations))
            ratio = numbers.write_if_known(row.ratio, lambda x: f"{x:,.3g}" if x < 1000 else _write_count(round(x)))
            time = [numbers.write_seconds(row.seconds)] if isinstance(row.seconds, float) else []
            rows.append((row.name, *counts, ratio, *time))
        return Table(columns, rows, range(1, len(columns)))

    def _kept_table(self) -> Table:
        if self.lines is None:
            rows = [(row.name, row.formula or "", numbers.write_decimal_bytes(row.bytes)) for row in self.kept]
            return Table(("kept", "numbers", "bytes"), rows, {2})
        shown = []
        for row in self.kept[:_SHOWN]:
            shape = f"{row.count} of " if row.count > 1 else ""
            shape += f"({','.join(map(str, row.shape))})" if row.shape else "a number"
            what = f"{row.name}, mask" if row.mask else row.name
            shown.append((what, row.place, shape, numbers.write_decimal_bytes(row.bytes), ", ".join(row.read_by)))
        rest = self.kept[_SHOWN:]
        if rest:
            shown.append((f"{len(rest)} more", "", "", numbers.write_decimal_bytes(sum(row.bytes for row in rest)), ""))
        return Table(("kept", "at", "shape", "bytes", "for the rule of"), shown, {3})

    def pictures(self) -> tuple[Chart | Bars, ...]:
        """Return what is held over the step, and the bytes of each choice of checkpoints."""
        found: list[Chart | Bars] = []
        if self.timeline:
            points = tuple((float(k), float(instant.bytes)) for k, instant in enumerate(self.timeline))
            turn = next((k for k, instant in enumerate(self.timeline) if instant.backward), len(points))
            series = (Series("forward", points[: turn + 1], "f"), Series("backward", points[turn:], "b"))
            x = "line of the program, forward and then backward"
            found.append(Chart("memory over a step, without checkpoints", x, "bytes", series))
        if self.checkpoints:
            bars = tuple((row.name, float(row.bytes)) for row in self.checkpoints)
            found.append(Bars("kept values, at most", "bytes", bars))
        return tuple(found)

    def page_blocks(self) -> tuple[Block | Chart | Bars, ...]:
        """Return the text, and the pictures below it."""
        return (*self.blocks(), Heading("Charts"), *self.pictures())

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the rows of all tables."""
        rows: list[tuple[object, ...]] = [
            ("passes", r.name, r.forward + r.backward, r.operations, None, "") for r in self.passes
        ]
        rows += [("memory", r.name, r.numbers, None, r.bytes, r.says) for r in self.memory]
        rows += [("kept", r.name, r.entries, None, r.bytes, r.place or r.formula) for r in self.kept]
        rows += [("checkpoints", r.name, r.segments, r.operations, r.bytes, "") for r in self.checkpoints]
        rows += [("formulas", r.name, r.value, None, None, r.formula) for r in self.formulas]
        return ("table", "name", "number", "operations", "bytes", "what"), rows


_SHOWN = 12  # rows of kept values in the text; --json has all


def _write_count(x: int) -> str:
    return f"{x:,}" if x < 10**9 else f"{x:.3g}".replace("e+0", "e").replace("e+", "e")


def _chain_in_words(chain: JacobianChain) -> str:
    sizes = " -> ".join(f"{n:,}" for n in chain.sizes) if len(chain.sizes) <= 8 else f"{len(chain.sizes) - 1} Jacobians"
    rows = chain.sizes[-1]
    back, row = "", "one row"
    if rows != 1:
        back = f", from the result back {_write_count(chain.reverse)}, in the best order {_write_count(chain.best)}"
        row = f"each of {rows:,} rows"
    return (
        f"A chain of Jacobians leads from {chain.input} to the result ({sizes}). To multiply them out from {chain.input} on "
        f"takes {_write_count(chain.forward)} multiplications{back}; to multiply {row} by them, one Jacobian after the other, "
        f"takes {_write_count(chain.products)}. The largest has {_write_count(chain.entries)} entries."
    )


def _ranks_in_words(rank: Rank) -> str:
    divided = ("the optimiser's numbers", "gradients", "parameters")[: rank.stage]
    return (
        f"On {rank.ranks:,} ranks (ZeRO {rank.stage} divides {', '.join(divided)}) each holds "
        f"{numbers.write_decimal_bytes(rank.bytes)} of parameters, gradients and the optimiser's numbers, and sends "
        f"{numbers.write_decimal_bytes(rank.moved)} a step."
    )
