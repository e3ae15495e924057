"""The table of options, from which the command line, Python's keywords, replayed commands and the reference are made.

A row is a field of `Options`. It says how the option is written and read, and which commands have it; the field holds its
value. To add an option, add a row and use its value.
"""

import contextlib
import dataclasses
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gradcli.classes import dataclass
from gradcli.errors import BadOption
from gradcli.request.option_values import (
    RandomSeed,
    as_texts,
    formats,
    join_names,
    parse_bytes,
    parse_decimal_bytes,
    parse_dots,
    parse_duration,
    parse_edges,
    parse_inches,
    parse_kinds,
    parse_scales,
    parse_seconds,
    parse_share_or_axes,
    parse_sizes,
    parse_whole_numbers,
    pick,
    read_axes_or_function,
    reader_of_name,
    reader_of_names,
    reader_of_words,
    seed,
    split_words,
    workers,
)
from gradcli.request.target_text import PAIR, Pick, is_python

if TYPE_CHECKING:
    from gradcli.request.point import Stepping

POINT, CLAIM, HARD_POINTS, PRECISION = "Point", "Claim", "Hard points and repairs", "Precision and limits"
FRAMEWORK, SUITE, PROGRAM, OUTPUT = "Frameworks", "Several checks", "Programs", "Output"
GROUPS = (POINT, CLAIM, HARD_POINTS, PRECISION, FRAMEWORK, SUITE, PROGRAM, OUTPUT)  # as help shows them
AT_ONE_POINT = ("compare-modes", "sweep", "grad", "trace", "cost")
CLAIMS = ("check", "compare-modes", "sweep")
PICTURED = ("compare-modes", "sweep", "cost")
WRITES = ("run",)  # whose standard output is the program's
PRINTS = ("check", "merge", *PICTURED, "derive", "grad", "trace", "modes", "ops", "explain", "find")
ALL = (*PRINTS, "init", *WRITES)
SERVES = ("mcp", "lsp")  # whose standard output is that of a protocol
RUNS = ("check", *PICTURED, "derive", "grad", "trace", "ops")


RANK_TIMEOUT = 30.0  # seconds that a rank may wait for others
FRAMEWORKS = ("torch", "jax", "tensorflow", "mlx", "numpy")
WAYS = ("eager", "compile", "checkpoint", "vmap", "autocast")  # to obtain the same gradient
EXPECTED = ("stop-gradient", "straight-through")


# How an option is written and read: the form of a row.

ROW = "option"  # the key of a field's metadata


@dataclass(frozen=True, slots=True)
class Option:
    """How one option is written and read.

    `kind` is the type on the command line: a string, which `read` converts to the value, a number, or a flag. `write`
    returns the strings of the value in a replayed command, and `take` converts the value of Python's keyword. An option
    without `write` is not replayed, and one without `take` is no keyword. One that is `rare` is in `--help-all` and not in
    `--help`; one that is `hidden`, an old spelling, is accepted and in neither.
    """

    flags: tuple[str, ...]
    metavar: str
    help: str
    on: tuple[str, ...]
    group: str
    default: Any = None
    kind: type = str
    repeated: bool = False
    low: int | None = None
    high: int | None = None
    read: Callable[[str, Any], Any] | None = None
    write: Callable[[Any], Sequence[str]] | None = None
    take: Callable[[str, Any], Any] | None = None
    hidden: bool = False
    rare: bool = False
    name: str = ""

    @property
    def flag(self) -> str:
        """The long name of the option, such as `--at`."""
        return self.flags[0]

    def value(self, given: Any) -> Any:
        """Return the value of an option from what the command line gave. Raises BadOption."""
        if given is None:
            return self.default
        if self.kind in (int, float) and isinstance(given, str):
            given = self.check_number(given, self.flag)
        return given if self.read is None else self.read(self.flag, given)

    def check_number(self, given: Any, flag: str) -> float:
        """Return a number of the option's kind between its limits, from a text or a number. Raises BadOption."""
        low, high = self.low, self.high
        with contextlib.suppress(ValueError, TypeError):
            number = operator.index(given) if self.kind is int and not isinstance(given, str) else self.kind(given)
            if (low is None or number >= low) and (high is None or number <= high):
                return float(number) if self.kind is float else int(number)
        example = (low or 1) if self.kind is int else "1e-3" if high is None else high
        kind = "a whole number" if self.kind is int else "a number"
        limits = f" from {low} to {high}" if high is not None else f" of at least {low}" if low is not None else ""
        written = f"{flag}{example}" if flag.endswith("=") else f"{flag} {example}"
        raise BadOption(f"{flag} takes {kind}{limits}, not {given!r}", do=f"write {written}")


def row(
    flags: str, metavar: str, help: str, *, on: Sequence[str], default: Any = None, repeated: bool = False, keyword: bool = False,
    **about: Any,
) -> Any:  # fmt: skip
    """Return a field of `Options` whose metadata is its row of the table.

    The value of a `keyword` is Python's as it is, and one word of a replayed command, or none if it is a flag.
    """
    if keyword:
        about |= {"write": write_flag if about.get("kind") is bool else write_one, "take": as_given}
    if repeated and default is None and "read" not in about:
        default, about["read"] = (), as_texts
    option = Option(tuple(flags.split()), metavar, help, tuple(on), default=default, repeated=repeated, **about)
    return dataclasses.field(default=default, metadata={ROW: option})


def switch(flags: str, help: str, **about: Any) -> Any:
    """Return the row of a flag that is off unless it is given."""
    return row(flags, "", help, default=False, kind=bool, **about)


def as_given(name: str, value: Any) -> Any:
    """Return a value of Python as it is."""
    return value


def write_one(value: Any) -> Sequence[str]:
    """Return the one word of a value."""
    return (value if isinstance(value, str) else repr(value),)


def write_all(values: Sequence[str]) -> Sequence[str]:
    """Return the words of a repeated option."""
    return values


def write_flag(value: bool) -> Sequence[str]:
    """Return the word of a flag, which has no value."""
    return ("",)


def write_set(values: frozenset[str]) -> Sequence[str]:
    """Return a set as one word."""
    return (",".join(sorted(values)),)


def write_seconds(value: float) -> Sequence[str]:
    """Return a time as one word."""
    return (f"{value:g}s",)


def write_number(x: float) -> str:
    """Return a number without needless zeros."""
    return repr(float(x)).removesuffix(".0")


@dataclass(frozen=True, slots=True)
class RankOptions:
    """On how many ranks a target runs, and what each of them has: the axes of inputs as text, or a function `place`.

    `loss` says what the loss is where ranks return different values; None if they may not. `timeout` is in seconds.
    """

    count: int
    shard: Any = None
    loss: str | None = None
    timeout: float = RANK_TIMEOUT

    @property
    def places(self) -> bool:
        """Whether a function of the user's says what each rank has."""
        return callable(self.shard) or (isinstance(self.shard, str) and is_python(self.shard))


@dataclass(frozen=True, slots=True)
class Options:
    """The values of all options; those that a command does not have keep their defaults."""

    # fmt: off
    stress: bool = switch(
        "--stress", "Also check at hard points, which break gradients: ties, zeros, huge values, other branches, indices, sizes.",
        on=("check",), group=HARD_POINTS, keyword=True)
    stress_points: int | None = row(
        "--stress-points", "N", "How many hard points to try; implies --stress.  [default: 400]",
        on=("check",), group=HARD_POINTS, rare=True, kind=int, low=1, high=100_000, keyword=True)
    sizes_check: Mapping[str, tuple[int, ...]] | None = row(
        "--sizes-check", "SIZES", 'Sizes to try, by the names of --shapes; implies --stress: "n=1,2,31; b=1,2".',
        on=("check",), group=HARD_POINTS, rare=True, read=parse_sizes, take=as_given,
        write=lambda found: ["; ".join(f"{name}={','.join(map(str, sizes))}" for name, sizes in found.items())])
    structure: bool = switch(
        "--structure",
        "With --stress, or in a suite: keep the check itself, and not only the points of --stress, on the sets of --assume.",
        on=("check",), group=HARD_POINTS, rare=True, keyword=True)
    digits: float | None = row(
        "--digits", "N",
        "Fail if the claim has fewer right digits than this, at a point of --stress or, without it, at a checked point.",
        on=("check",), group=HARD_POINTS, rare=True, kind=float, low=0, high=16, keyword=True)
    diagnose: float | None = row(
        "--diagnose", "TIME", "Processor time that the search for the cause of a FAIL may take at most: 10s.  [default: 30s]",
        on=("check",), group=HARD_POINTS, read=parse_duration, write=write_seconds, take=parse_seconds)
    no_diagnose: bool = switch(
        "--no-diagnose", "Do not search for the cause of a FAIL: name only what the wrong entries show by themselves.",
        on=("check",), group=HARD_POINTS, rare=True, keyword=True)
    patch: str | None = row(
        "--patch", "FILE", "Write the repair of a wrong claim, if one is found, as a diff that git apply takes.",
        on=("check",), group=HARD_POINTS)
    keep: int = row(
        "--keep", "N", "How many calls of each gradient to check: the first, that with the largest input, others drawn evenly.",
        on=("run",), group=PROGRAM, default=3, kind=int, low=1, high=100_000)
    keep_bytes: int | None = row(
        "--keep-bytes", "SIZE", "Memory for the values of the calls to check: 256MB, 2GB.  [default: 256MB]",
        on=("run",), group=PROGRAM, read=parse_bytes)
    source: tuple[str, ...] = row(
        "--source", "FOLDER", "Check only gradients defined in this folder; all: also those of libraries. Repeatable.",
        on=("run",), group=PROGRAM, repeated=True)
    exclude: tuple[str, ...] = row(
        "--exclude", "NAME", "Leave out a gradient, by its name; globs allowed. Repeatable.",
        on=("run",), group=PROGRAM, repeated=True)
    save: str | None = row(
        "--save", "FILE", "Save the recorded calls to a file .npz, for gradcli check --recorded.", on=("run",), group=PROGRAM)
    write_suite: str | None = row(
        "--write-suite", "FILE", "Write a suite of checks at the recorded points: gradcli.toml.", on=("run",), group=PROGRAM)
    recorded: str | None = row(
        "--recorded", "FILE", "Check the calls that gradcli run --save FILE has kept.", on=("check",), group=PROGRAM, rare=True)
    at: tuple[str, ...] = row(
        "--at -a", "POINT",
        'Values: "x=0.5, W=randn(3,4), y=@y.npy, data=file.py:DATA", "params.A=1"; '
        'whole points: @point.npz, file.py:name, or START, a name in the file of the function.',
        on=("check", *AT_ONE_POINT, "derive"), group=POINT, repeated=True, write=write_all)
    wrt: str | None = row(
        "--wrt", "NAMES", "Inputs to differentiate: x,W; globs allowed.  [default: all]",
        on=(*CLAIMS, "cost", "derive", "grad", "trace"), group=POINT, write=write_one, take=join_names)
    seed: int = row(
        "--seed", "N|random", "Seed of everything drawn; random draws one, and the report names it.",
        on=("check", *AT_ONE_POINT, "derive", "run"), group=POINT, default=0, read=seed, write=write_one, take=seed)
    shapes: tuple[str, ...] = row(
        "--shapes", "SHAPES",
        'Shapes of inputs: W:3,4 or "W: 3 4; x: 4"; derive takes sizes by name, and sums of them: "W: m n+k; x: n; h: k; lam:".',
        on=("check", *AT_ONE_POINT, "derive"), group=POINT, repeated=True, write=write_all)
    assume: tuple[str, ...] = row(
        "--assume", "FACTS",
        'Properties of inputs: "S: spd; y: simplex; Y: onehot rows; t: signs; q: positive; A: symmetric, orthogonal, skew, '
        'lower, upper, diagonal; v: unit; M: mask; c: index". The check then stays within these sets; with --stress, only '
        'the points of --stress do, unless --structure is given.',
        on=("check", "derive"), group=POINT, repeated=True, write=write_all, take=as_texts)
    points: int = row(
        "--points", "N", "How many points to draw when none is given.",
        on=("check",), group=POINT, rare=True, default=3, kind=int, low=1, high=1000, write=write_one)
    grad: Any = row(
        "--grad", "CLAIM",
        'Your gradient: a function (focal_grad, file.py:g) or "x=y*cos(x*y), y=..."; '
        'shared statements first: "p=softmax(z); z=p-y".',
        on=CLAIMS, group=CLAIM, keyword=True)
    jac: Any = row(
        "--jac", "CLAIM", "Your Jacobian of a vector result, indexed [output, input]; or its diagonal, if the rest is 0.",
        on=CLAIMS, group=CLAIM, keyword=True)
    hess: Any = row(
        "--hess", "CLAIM", "Your Hessian, or its diagonal, if the rest is 0; a --grad that is given with it is checked too.",
        on=CLAIMS, group=CLAIM, keyword=True)
    jvp: Any = row("--jvp", "NAME", "Your product J v: NAME(x, v).", on=CLAIMS, group=CLAIM, rare=True, keyword=True)
    vjp: Any = row("--vjp", "NAME", "Your product w J: NAME(x, w).", on=CLAIMS, group=CLAIM, rare=True, keyword=True)
    hvp: Any = row("--hvp", "NAME", "Your product H v: NAME(x, v).", on=CLAIMS, group=CLAIM, rare=True, keyword=True)
    value_and_grad: bool = switch(
        "--value-and-grad", "The target returns its value and its gradient, which is checked.",
        on=CLAIMS, group=CLAIM, keyword=True)
    backward: Any = row(
        "--backward", "NAME",
        "The backward pass of a function that returns a cache, NAME(dout, cache).  [default: found beside it]",
        on=("check",), group=CLAIM, rare=True, keyword=True)
    engine: Any = row(
        "--engine", "CLASS",
        "The class of your own engine, with .data, .grad and .backward(): each number of an input becomes an object of it.",
        on=("check", "trace"), group=CLAIM, keyword=True)
    engine_arrays: bool = switch(
        "--engine-arrays", "With --engine: each array becomes one object.",
        on=("check", "trace"), group=CLAIM, rare=True, keyword=True)
    pick: Pick | None = row(
        "--pick", "PARTS",
        "The target returns its value and its gradient among others: grad=1, value=2,grad=1 by position, "
        "value=loss,grad=dw by key. For a layer: where it keeps its gradients, W=dw,b=grads[1].",
        on=CLAIMS, group=CLAIM, read=pick, write=lambda found: [found.text], take=pick)
    require_claim: bool = switch(
        "--require-claim", "Exit with status 2 if nothing is claimed.", on=CLAIMS, group=CLAIM, write=write_flag)
    order: int = row(
        "--order", "N", "Order of the derivative: 2 is the Hessian.",
        on=(*CLAIMS, "derive"), group=CLAIM, default=1, kind=int, low=1, high=2, keyword=True)
    allow_python: bool = switch(
        "--allow-python", "Lines of standard input may name Python code, which is run.", on=("check",), group=POINT, rare=True)
    answer: str | None = row(
        "--answer", "EXPR",
        'Your derivative, to check: "2*X.T@(X@w - y)"; by several inputs, after statements of yours: '
        '"r = W@x - y; W = outer(r, x); y = -r".',
        on=("derive",), group=CLAIM)
    show: bool = switch(
        "--show", "With --answer: also show the derivation, the result and its code; a page shows them folded.",
        on=("derive",), group=OUTPUT)
    layout: str = row(
        "--layout", "KIND",
        "numerator or denominator; mixed: gradients have the shape of the input, Jacobians are indexed [output, input].",
        on=("derive",), group=OUTPUT, default="mixed")
    style: str = row(
        "--style", "KIND", "Steps by differential, graph (adjoints) or index.",
        on=("derive",), group=OUTPUT, default="differential")
    no_steps: bool = switch("--no-steps", "Show only the result, not how it is found.", on=("derive",), group=OUTPUT)
    code: str = row(
        "--code", "LIST", "Languages of the code: numpy, torch, jax, c, all; --json has all.",
        on=("derive",), group=OUTPUT, default="numpy")
    jacobian: bool = switch(
        "--jacobian", "Require a vector result, and compare its Jacobian.", on=("compare-modes",), group=PRECISION)
    modes: str | None = row(
        "--modes", "LIST",
        "Modes to run: names, unique prefixes, fd, cs, fwd, rev, all; torch, jax, tensorflow and mlx only if named.  "
        "[default: all; to check a claim, those that decide]",
        on=("check", "compare-modes"), group=PRECISION, write=write_one, take=join_names)
    cost: bool = switch(
        "--cost", "Show for each mode its digits, calls, additions, multiplications, other functions, and memory.",
        on=("compare-modes",), group=OUTPUT)
    columns: str | None = row(
        "--columns", "LIST",
        "Columns to show: digits, median, bound, held, calls, time/f, seconds, ops, adds, mults, fn, memory, sweeps, "
        "device.",
        on=("compare-modes",), group=OUTPUT)
    sizes: Mapping[str, tuple[int, ...]] | None = row(
        "--sizes", "SIZES",
        'Sizes by the names of --at, --shapes and parameters: "L=2,4; d=768, n=512". They may be too large to run.',
        on=("cost",), group=POINT, read=parse_sizes)
    first_sizes: Mapping[str, tuple[int, ...]] | None = row(
        "--sizes", "SIZES", "Only the first of each is used: gradcli cost --sizes counts how costs grow.",
        on=("compare-modes",), group=OUTPUT, read=parse_sizes, hidden=True)
    steps: bool = switch(
        "--steps", "Also show a summary of error against step size; gradcli sweep shows the curves.",
        on=("compare-modes",), group=OUTPUT)
    model: str | None = row(
        "--model", "NAME", "A published model: gpt-3, gpt-2, llama-2-70b, llama-2-7b, bert-base, vit-b-16.",
        on=("cost",), group=POINT)
    batch: int = row(
        "--batch", "N", "With --model: sequences or images in a step.", on=("cost",), group=POINT, default=1, kind=int, low=1)
    seq: int | None = row(
        "--seq", "N", "With --model: tokens in a sequence.  [default: the longest]", on=("cost",), group=POINT, kind=int, low=1)
    optimizer: str = row(
        "--optimizer", "NAME", "The optimiser, which keeps numbers for each parameter: none, sgd, momentum, adam, adafactor.",
        on=("cost",), group=OUTPUT, default="none")
    master: str | None = row(
        "--master", "FORMAT", "The format of the optimiser's copy of the parameters, and of its other numbers: float32.",
        on=("cost",), group=OUTPUT)
    checkpoint: tuple[str, ...] = row(
        "--checkpoint", "NAMES", "Functions of yours that are run again in the reverse sweep: attention.",
        on=("cost",), group=OUTPUT, default=(), read=lambda flag, text: tuple(split_words(text)))
    memory: int | None = row(
        "--memory", "SIZE", "Find the checkpoints that keep at most this much and repeat the fewest operations: 2GB.",
        on=("cost",), group=OUTPUT, read=parse_decimal_bytes)
    link: int | None = row(
        "--link", "SPEED", "Show how long it takes to move what is kept to other memory and back at this speed: 64GB (a second).",
        on=("cost",), group=OUTPUT, read=parse_decimal_bytes)
    shards: int | None = row(
        "--shard", "N", "Divide over N ranks what --zero names.", on=("cost",), group=OUTPUT, kind=int, low=2)
    zero: int | None = row(
        "--zero", "K",
        "What --shard divides: 1 the optimiser's numbers, 2 the gradients, too, 3 the parameters, too.  [default: 1]",
        on=("cost",), group=OUTPUT, kind=int, low=1, high=3)
    pass_time: float | None = row(
        "--pass-time", "TIME", "The time of one pass, to turn passes into time: 0.5s.",
        on=("cost",), group=OUTPUT, read=parse_duration)
    norms: bool = switch(
        "--norms", "Show how the norms of adjoints grow or vanish over the iterations of a loop, at sizes that can be run.",
        on=("cost",), group=OUTPUT)
    time: bool = switch(
        "--time", "Also measure the time of f and its gradient on this machine, at sizes that can be run.",
        on=("cost",), group=OUTPUT)
    schemes: str | None = row(
        "--schemes", "LIST",
        "Schemes: forward, backward, central, 5-point, 7-point, richardson, complex.  [default: all but backward]",
        on=("sweep",), group=PRECISION)
    formats: tuple[str, ...] = row(
        "--dtype", "LIST", "Formats to compute in: float16, bfloat16, float32, float64, longdouble, float8_e4m3fn, float8_e5m2.",
        on=("compare-modes", "sweep"), group=PRECISION, default=(), read=formats)
    loss_scale: int | None = row(
        "--loss-scale", "K", "With --dtype: scale the loss by 2^K.  [default: the largest that fits, if anything underflows]",
        on=("compare-modes",), group=PRECISION, rare=True, kind=int, low=0, high=120)
    accumulate: int | None = row(
        "--accumulate", "N", "Compare the gradients of N micro-batches with that of the full batch.",
        on=("compare-modes",), group=PRECISION, rare=True, kind=int, low=2)
    bits: tuple[int, ...] = row(
        "--bits", "LIST", "Also compute with this many bits, rounded to nearest: 113, 400.",
        on=("sweep",), group=PRECISION, rare=True, default=(), read=parse_whole_numbers)
    each: bool = switch("--each", "Sweep along every entry, not along all inputs at once.", on=("sweep",), group=PRECISION)
    samples: int | None = row(
        "--samples", "N", "For a random function: choose the step by the spread of N values.",
        on=("sweep",), group=PRECISION, kind=int, low=3, high=10_000)
    rtol: float | None = row(
        "--rtol", "R", "Accept this relative error of the claim, too: it only loosens the computed bounds.",
        on=("check",), group=PRECISION, kind=float, low=0, keyword=True)
    atol: float | None = row(
        "--atol", "A", "Accept this absolute error of the claim, too: it only loosens the computed bounds.",
        on=("check",), group=PRECISION, kind=float, low=0, keyword=True)
    h: float | None = row(
        "--h", "H", "A fixed step for differences.  [default: gradcli chooses]",
        on=("check", "sweep"), group=PRECISION, rare=True, kind=float, keyword=True)
    bounds: Mapping[str, tuple[float, float]] | None = row(
        "--bounds", "NAME=LOW:HIGH", 'Edges of the domain: "k=0:inf"; no step leaves it.',
        on=("check", "sweep"), group=PRECISION, repeated=True, read=parse_edges, take=as_given,
        write=lambda found: [f"{name}={write_number(low)}:{write_number(high)}" for name, (low, high) in found.items()])
    scale: Mapping[str, float] | None = row(
        "--scale", "NAME=SIZE", 'Typical size of an input, for its steps: "x=1e-3".',
        on=("check", "sweep"), group=PRECISION, rare=True, repeated=True, read=parse_scales, take=as_given,
        write=lambda found: [f"{name}={size!r}" for name, size in found.items()])
    budget: int | None = row(
        "--budget", "N", "How many evaluations of f the differences may take.",
        on=(*CLAIMS, "run"), group=PRECISION, rare=True, kind=int, low=1, keyword=True)
    mutate: bool = switch(
        "--mutate", "Plant mistakes in the gradient under test, and report the smallest that the check catches.",
        on=("check",), group=CLAIM, rare=True, keyword=True)
    save_point: str | None = row(
        "--save-point", "FILE", "Save the first point that does not pass or, if all pass, the first point: .npz, .json.",
        on=("check",), group=OUTPUT, rare=True)
    check: bool = switch(
        "--check", "Does nothing: every check verifies the rules that its function uses.",
        on=("ops",), group=PRECISION, hidden=True)
    timeout: float | None = row(
        "--timeout", "TIME",
        "Time limit, such as 90s or 5min. At the limit, 'check' shows what is finished. 'run' counts only the time of its "
        "checks, and lists the calls that are left. 'mcp' and 'lsp' apply the limit to each check, 60s by default. Other "
        "commands show nothing, and exit with status 3.",
        on=("check", *AT_ONE_POINT, "derive", "ops", "run", *SERVES), group=PRECISION, read=parse_duration, write=write_seconds)
    mode_timeout: float | None = row(
        "--mode-timeout", "TIME", "Stop a mode after this time: 10s, 2min.  [default: no limit]",
        on=CLAIMS, group=PRECISION, rare=True, read=parse_duration, write=write_seconds, take=parse_seconds)
    threads: int = row(
        "--threads", "N", "Threads of numerical libraries: BLAS, OpenMP. Sums over threads differ in the last digits.",
        on=RUNS, group=PRECISION, rare=True, default=1, kind=int, low=1, high=1024, write=write_one)
    ranks: int | None = row(
        "--ranks", "N",
        "Run the target on N processes of torch.distributed, as torchrun does, and check the gradients of all of them. "
        "With --framework jax: on N devices of one process, for shard_map. --shard says which part of an input each has.",
        on=("check",), group=FRAMEWORK, kind=int, low=2, high=64, keyword=True)
    loss: str | None = row(
        "--loss", "KIND",
        "What the loss is if the ranks return different values: their sum or, as in DDP, their mean.",
        on=("check",), group=FRAMEWORK, rare=True, read=reader_of_words("sum", "mean"), write=write_one,
        take=reader_of_words("sum", "mean"))
    rank_timeout: float | None = row(
        "--rank-timeout", "TIME", "How long a rank may wait in a collective that other ranks do not enter.  [default: 30s]",
        on=("check",), group=FRAMEWORK, rare=True, read=parse_duration, write=write_seconds, take=parse_seconds)
    framework: str | None = row(
        "--framework", "NAME",
        "What a target is written in: torch, jax, tensorflow, mlx, numpy.  [default: recognised from the code]",
        on=("check",), group=FRAMEWORK, read=reader_of_name(FRAMEWORKS), write=write_one, take=reader_of_name(FRAMEWORKS))
    reference: Any = row(
        "--reference", "TARGET",
        "Another implementation of the same function, with which values and gradients of the target are compared: a name in "
        "the target's file, or file.py:name.",
        on=("check",), group=FRAMEWORK, keyword=True)
    device: str | None = row(
        "--device", "NAME",
        "Device that frameworks run on: cpu, cuda, cuda:1, mps; for expressions and numpy functions too, in torch or jax.",
        on=("check", "compare-modes"), group=FRAMEWORK, keyword=True)
    dtype: str | None = row(
        "--dtype", "NAME",
        "The format whose gradient is checked: float32, tf32, bfloat16, float16.  [default: float64] In cost: the format "
        "of the parameters, float8 too.  [default: float32]",
        on=("check", "cost"), group=FRAMEWORK, keyword=True)
    autocast: str | None = row(
        "--autocast", "NAME",
        "Check the gradient under torch.autocast: bfloat16, or float16 (with a GradScaler too). In cost: the format of values.",
        on=("check", "cost"), group=FRAMEWORK, rare=True, keyword=True)
    compile: bool = switch(
        "--compile", "Check the gradient under torch.compile, jax.jit, ...", on=("check",), group=FRAMEWORK, keyword=True)
    same_as: frozenset[str] = row(
        "--same-as", "LIST",
        "Also compute the gradient in these ways, and compare: eager,compile,checkpoint,vmap,autocast.",
        on=("check",), group=FRAMEWORK, rare=True, default=frozenset(), read=reader_of_names(WAYS), write=write_set,
        take=reader_of_names(WAYS))
    localise: bool = switch(
        "--localise", "Also check each module inside the target by itself.",
        on=("check",), group=FRAMEWORK, rare=True, keyword=True)
    expect: frozenset[str] = row(
        "--expect", "KINDS",
        "What is on purpose: straight-through (its smooth surrogate is checked), stop-gradient (held constant).",
        on=("check",), group=FRAMEWORK, rare=True, default=frozenset(), read=reader_of_names(EXPECTED), write=write_set,
        take=reader_of_names(EXPECTED))
    allow: frozenset[str] = row(
        "--allow", "KINDS", "Findings that count as success: kink,staircase,noise,...",
        on=("check",), group=OUTPUT, default=frozenset(), read=parse_kinds, write=write_set, take=parse_kinds)
    allow_inconclusive: bool = switch(
        "--allow-inconclusive", "Count every inconclusive verdict except timeout as success.",
        on=("check",), group=OUTPUT, rare=True, write=write_flag)
    select: str | None = row(
        "--select -k", "EXPR", 'Only checks whose id or target contains these names: "focal and not (huber or lost)".',
        on=("check",), group=SUITE)
    last_failed: bool = switch(
        "--last-failed --lf", "Only checks that did not pass in the last run, or were not reached.", on=("check",), group=SUITE)
    changed: bool = switch(
        "--changed", "Only checks whose modules, data or declaration differ from git's HEAD.", on=("check",), group=SUITE)
    changed_since: str | None = row(
        "--changed-since", "REF", "Only checks whose modules, data or declaration changed since this branch left REF.",
        on=("check",), group=SUITE, rare=True)
    profile: str | None = row(
        "--profile", "NAME", "Also use the options of [tool.gradcli.profile.NAME].", on=("check",), group=SUITE, rare=True)
    watch: bool = switch(
        "--watch", "Run checks whenever a file that they depend on is saved, and print a line for each; Ctrl-C ends it.",
        on=("check",), group=SUITE)
    list_only: bool = switch("--list", "List the selected checks and run none.", on=("check",), group=SUITE)
    exit_first: bool = switch("--exitfirst -x", "Stop at the first check that fails.", on=("check",), group=SUITE)
    workers: int = row(
        "--workers -n", "N", "Run N checks at a time, each in its own process; auto: one for each processor.",
        on=("check",), group=SUITE, default=1, read=workers)
    executor: str | None = row(
        "--executor", "URL", "Run the checks on a Dask cluster: dask://HOST:PORT.", on=("check",), group=SUITE, rare=True)
    shard: Any = row(
        "--shard", "AXES",
        'With --ranks: the axis along which each rank has its part of an input, "W: 1, b: 0", or a function '
        "file.py:place(name, value, rank, ranks). K/N: only the K-th of N parts of the checks; gradcli merge joins them.",
        on=("check",), group=FRAMEWORK, rare=True, read=parse_share_or_axes, take=read_axes_or_function,
        write=lambda found: [found] if isinstance(found, str) else [])
    cache: bool | None = row(
        "--cache/--no-cache", "", "Does nothing: a check always runs, and is never answered from an earlier run.",
        on=("check",), group=SUITE, kind=bool, hidden=True)
    baseline: str | None = row(
        "--baseline", "FILE", "Checks that this file lists as failing do not fail the run; --update-baseline writes it.",
        on=("check",), group=SUITE)
    update_baseline: bool = switch(
        "--update-baseline", "Write what fails now to the file of --baseline.", on=("check",), group=SUITE, rare=True)
    fail_under: float | None = row(
        "--fail-under", "PERCENT", "Exit with status 2 if less than this share of the gradients that are found is checked.",
        on=("find",), group=OUTPUT, kind=float, low=0, high=100)
    github: bool = switch("--github", "Also write .github/workflows/gradcli.yml.", on=("init",), group=OUTPUT)
    add: bool = switch("--add", "If there is a suite already, append the checks that it lacks.", on=("init",), group=OUTPUT)
    no_try: bool = switch("--no-try", "Only read the project: run none of its code to try points.", on=("init",), group=OUTPUT)
    format: str | None = row("--format", "FORM", "Format of standard output.  [default: text]", on=PRINTS, group=OUTPUT)
    json: bool = switch("--json", "The same as --format json.", on=PRINTS, group=OUTPUT)
    out: tuple[str, ...] = row(
        "--out -o", "FILE", "Also write a file; its ending chooses the format. Repeatable.",
        on=(*PRINTS, *WRITES), group=OUTPUT, repeated=True)
    plot: tuple[str, ...] = row(
        "--plot", "FILE", "Draw the report into a file: .pdf, .svg or .png (matplotlib). Repeatable.",
        on=PICTURED, group=OUTPUT, repeated=True)
    size: tuple[float, float] | None = row(
        "--size", "WxH", "Size of a picture file in inches: 3.5x2.5.  [default: 8 wide, as high as its pictures need]",
        on=PICTURED, group=OUTPUT, rare=True, read=parse_inches)
    dpi: int | None = row(
        "--dpi", "N", "Dots per inch of a .png.  [default: 150]", on=PICTURED, group=OUTPUT, rare=True, read=parse_dots)
    direction: str = row(
        "--direction", "DIR", "Direction in which graphs run on pages and in pictures: right or down.",
        on=("check", "trace", "derive"), group=OUTPUT, rare=True, default="right", read=reader_of_words("right", "down"))
    quiet: bool = switch("--quiet -q", "Print no text; for several checks, only the last line.", on=ALL, group=OUTPUT)
    verbose: bool = switch(
        "--verbose -v", "Show every point, and each of several checks, in full.", on=("check", "run"), group=OUTPUT)
    color: bool | None = row(
        "--color/--no-color", "", "Use colour, whatever the stream is.  [default: on a terminal]",
        on=ALL, group=OUTPUT, kind=bool)
    traceback: bool = switch("--traceback", "Show Python's traceback with an error.", on=(*ALL, *SERVES), group=OUTPUT, rare=True)
    # fmt: on
    given: frozenset[str] = frozenset()  # the names of the options that the command line gave

    @property
    def picked(self) -> Pick | None:
        """Which parts of the target's result are its value and its gradient, None if it returns no gradient."""
        if self.pick is not None and self.value_and_grad:
            raise BadOption("--value-and-grad and --pick both say what the target returns", do="drop --value-and-grad")
        return PAIR if self.value_and_grad else None if self.gradient_places else self.pick

    @property
    def has_claim(self) -> bool:
        """Whether a derivative is claimed, by a claim or as a part of the target's result."""
        return any(getattr(self, kind) is not None for kind in CLAIM_KINDS) or self.picked is not None

    @property
    def gradient_places(self) -> tuple[tuple[str, str], ...]:
        """Where an object keeps the gradients of its parameters, by the name of each, where that is said."""
        return () if self.pick is None else self.pick.gradient_places

    @property
    def stepping(self) -> "Stepping":
        """How differences may step. Raises BadOption for steps, sizes and edges that no difference can use."""
        from gradcli.request.point import Stepping

        return Stepping(self.h, self.bounds or {}, self.scale or {}, self.budget)

    @property
    def assumptions_of_check(self) -> tuple[str, ...]:
        """What the check itself assumes of its inputs; empty where the hard points alone are on the sets."""
        return self.assume if self.structure or not self.looks_at_hard_points else ()

    @property
    def looks_at_hard_points(self) -> bool:
        """Whether hard points are asked for."""
        return self.stress or self.stress_points is not None or self.sizes_check is not None

    @property
    def part(self) -> tuple[int, int] | None:
        """Which part of the checks is run, and of how many parts; None for all of them."""
        return self.shard if isinstance(self.shard, tuple) else None

    @property
    def on_ranks(self) -> RankOptions | None:
        """On which ranks of torch.distributed the target runs; None if it runs in one process. Raises BadOption."""
        shard = self.shard
        if isinstance(shard, tuple | list):  # K/N, also from a document
            if self.ranks is not None:
                says = "--shard K/N is for a suite, and says nothing of the inputs of ranks"
                raise BadOption(says, do='write --shard "W: 1"')
            shard = None
        if self.ranks is None or self.framework == "jax":
            for flag, value in (("--shard", shard), ("--loss", self.loss), ("--rank-timeout", self.rank_timeout)):
                if value is not None and self.ranks is None:
                    raise BadOption(f"{flag} is for programs that several ranks run", do="say how many: --ranks 2")
                if value is not None:
                    raise BadOption(f"{flag} is for torch, not for jax", do="shard_map says what each device has")
            return None
        if self.framework not in (None, "torch"):
            raise BadOption(f"--ranks is for torch and jax, not for {self.framework}", do="leave it out")
        return RankOptions(self.ranks, shard, self.loss, self.rank_timeout or RANK_TIMEOUT)

    @property
    def in_one_process(self) -> "Options":
        """The same options for a target that runs in one process, as the reference of one that runs on ranks."""
        return dataclasses.replace(self, ranks=None, shard=None, loss=None, rank_timeout=None)

    @property
    def devices(self) -> int | None:
        """On how many devices of JAX's the target may run: --ranks, with --framework jax; None elsewhere."""
        return self.ranks if self.framework == "jax" else None

    @property
    def seed_is_random(self) -> bool:
        """Whether the seed was drawn for this run (--seed random)."""
        return isinstance(self.seed, RandomSeed)


ROWS: tuple[Option, ...] = tuple(
    dataclasses.replace(field.metadata[ROW], name=field.name)
    for field in dataclasses.fields(Options)
    if ROW in field.metadata
)
DEFAULTS = Options()
CLAIM_KINDS = ("grad", "jac", "hess", "jvp", "vjp", "hvp")
SECOND_ORDER = ("hess", "hvp")


def find_claim(options: Options) -> tuple[str, Any] | None:
    """Return the kind of the one claim in the options, and the claim, or None; of a gradient and a Hessian, the Hessian.

    Raises  BadOption for any other two claims, of which --value-and-grad and --pick are one.
    """
    given = _kinds_of_claims({kind: getattr(options, kind) for kind in CLAIM_KINDS})
    if len(given) > 1:
        raise BadOption(f"--{given[0]} and --{given[1]} are two claims", do="check one at a time")
    if given and options.picked is not None:
        flag = "--pick" if options.pick is not None else "--value-and-grad"
        raise BadOption(f"{flag} is itself a claim, and --{given[0]} is another", do="drop one of them")
    return (given[0], getattr(options, given[0])) if given else None


def _kinds_of_claims(given: Mapping[str, Any]) -> list[str]:
    """Return the kinds of claims that are given; a gradient beside a second derivative does not count."""
    kinds = [kind for kind in CLAIM_KINDS if given.get(kind) is not None]
    return kinds[1:] if kinds[:1] == ["grad"] and kinds[1:] and kinds[1] in SECOND_ORDER else kinds


def replace_claim(options: Options, claim: tuple[str, Any] | None) -> Options:
    """Return the options with this claim, or with none, in place of their own."""
    second = claim is not None and claim[0] in SECOND_ORDER
    claims: dict[str, Any] = {kind: None for kind in CLAIM_KINDS if not (second and kind == "grad")}
    return dataclasses.replace(options, **(claims | dict([] if claim is None else [claim])))


def options_of_command(command: str) -> tuple[Option, ...]:
    """Return the options of a command."""
    return tuple(option for option in ROWS if command in option.on)


def keyword_options() -> tuple[Option, ...]:
    """Return the options that `gradcli.check` takes as keywords."""
    return tuple(option for option in ROWS if option.take is not None)


def options_from_keywords(given: Mapping[str, Any]) -> Options:
    """Return the options from Python's keywords. Raises TypeError for an unknown keyword or two claims, BadOption."""
    known = {option.name: option for option in keyword_options()}
    for name in given:
        if name not in known:
            raise TypeError(f"check() got an unexpected keyword argument '{name}'; it takes {', '.join(known)}")
    claims = _kinds_of_claims(given)
    if len(claims) > 1:
        raise TypeError(f"{claims[0]}= and {claims[1]}= are two claims: check one at a time")
    values = {}
    for name, value in given.items():
        option = known[name]
        values[name] = value if option.take is None else option.take(f"{name}=", value)
        if option.kind in (int, float) and option.low is not None and values[name] is not None:
            values[name] = option.check_number(values[name], f"{name}=")  # the limits are those of the command line
    return Options(**values)


# The words of a command that repeats a check.

_FIRST = ("at", "shapes", *CLAIM_KINDS)


def words_to_repeat(options: Options, only: Collection[str] | None = None) -> tuple[str, ...]:
    """Return the words of a `check` command with these options: the point and the claim first, the seed last.

    Options at their defaults are left out, but for the seed; where `only` names options, they alone are written.
    """
    words: list[str] = []
    rows = options_of_command("check")
    for option in sorted(rows, key=lambda option: (option.name == "seed", option.name not in _FIRST)):
        value = getattr(options, option.name)
        wanted = value != option.default or option.name == "seed" if only is None else option.name in only
        if option.write is not None and wanted:
            for text in option.write(value):
                words += [option.flag, text] if text or option.kind is not bool else [option.flag]
    return tuple(words)


# Options in hints: messages name them as the command line writes them; a suite writes `at = ["x=1"]`, Python `wrt="x"`.

_IN_A_HINT = re.compile(
    r"""(?<![\w-])--(?P<name>[a-z][a-z-]*)"""
    r"""(?:[ =](?P<value>"[^"]*"|'[^']*'|(?!-|(?:or|and)\b)[^\s;,)"']+(?:,[^\s;,)"']+)*))?"""
)
_A_COMMAND = re.compile(r"\bgradcli [a-z]")


def hint_in_suite(text: str, *, values: bool = True) -> str:
    """Return a hint with its options as keys of a suite; a hint that is a command stays as it is.

    In a message, which is no hint, no `values` but numbers follow the options.
    """
    return _rewrite_hint(text, options_of_command("check"), _write_key, values)


def hint_in_python(text: str, *, values: bool = True) -> str:
    """Return a hint, or a message, with its options as keywords of Python, as `hint_in_suite` does."""
    return _rewrite_hint(text, (*keyword_options(), *(row for row in ROWS if row.name == "at")), _write_keyword, values)


def _rewrite_hint(text: str, rows: Collection[Option], write: Callable[[Option, str | None], str], values: bool) -> str:
    known = {row.flag.removeprefix("--"): row for row in rows}

    def written(match: re.Match[str]) -> str:
        row = known.get(match["name"])
        if row is None:
            return match.group()
        value = None if row.kind is bool or not (values or (match["value"] or "").isdecimal()) else match["value"]
        left = match.group().removeprefix(f"--{match['name']}") if value is None else ""
        return write(row, value and value.strip("\"'")) + left

    return text if _A_COMMAND.search(text) else _IN_A_HINT.sub(written, text)


def _write_key(row: Option, value: str | None) -> str:
    key = row.flag.removeprefix("--")
    if row.kind is bool:
        return f"{key} = true"
    if value is None:
        return key
    text = value if row.kind is not str or value.isdecimal() else f'"{value}"'
    return f"{key} = [{text}]" if row.repeated or isinstance(row.default, frozenset) else f"{key} = {text}"


def _write_keyword(row: Option, value: str | None) -> str:
    if row.kind is bool:
        return f"{row.name}=True"
    if value is None:
        return f"{row.name}="
    return f"{row.name}={value if row.kind is not str else repr(value)}"
