"""Programs: expressions whose repeated parts have names."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gradcli.classes import dataclass
from gradcli.derivation.matrix_expression import E, Op, count_removed_axes, expression_text, name, transpose
from gradcli.derivation.sized_problem import first_free_name
from gradcli.errors import NotSupported

_WORTH = 3  # operations that a name must save
_USERS = 4  # operations that a part counts for in addition if the user has named it
_NUMBERED = re.compile(r"t\d+")  # the name in the steps of a part that has no usual letter
_KNOWN = {"eye", "ones", "zeros", "ones_like", "zeros_like"}
_LETTERS = {
    "softmax": "p", "sigmoid": "s", "tanh": "h", "inv": "P", "exp": "e", "det": "D", "var": "v", "mean": "m", "sqrt": "r",
    "outer": "M", Op.ADD: "d", Op.MATMUL: "u", "relu": "a",
}  # fmt: skip


@dataclass(frozen=True)
class Statements:
    """Named parts in order, and the result."""

    parts: tuple[tuple[str, E], ...]
    result: E

    @property
    def size(self) -> int:
        """The number of operations of the whole program."""
        return sum(e.size for _, e in self.parts) + self.result.size

    def text(self) -> str:
        """Return the program in gradcli's language, with a statement for each part."""
        return "; ".join([*(f"{n} = {expression_text(e)}" for n, e in self.parts), expression_text(self.result)])


# The number of axes of an expression, by which code can tell arrays from Python's own numbers.

PLAIN = -1  # the rank of a Python number: a literal, or the length of an axis
_RANKS: dict[
    str, Callable[[E, list[int]], int]
] = {  # by function or operation, given the numbers of axes of its arguments
    **dict.fromkeys(("det", "trace", "norm"), lambda e, args: 0),
    **dict.fromkeys(("arange", "eigvalsh", "svdvals"), lambda e, args: 1),
    **dict.fromkeys(("outer", "eye", "inv"), lambda e, args: 2),
    **dict.fromkeys(("ones", "zeros"), lambda e, args: len(args)),
    **dict.fromkeys(
        ("sum", "mean", "var", "logsumexp", "prod", "max", "min"),
        lambda e, args: PLAIN if args == [PLAIN] else args[0] - 1 if e.options else 0,
    ),
    "einsum": lambda e, args: len(dict(e.options)["first"].strip('"').partition("->")[2]),
    "diag": lambda e, args: 3 - args[0],
    "solve": lambda e, args: args[1],
    "index": lambda e, args: args[0] - count_removed_axes(e) + e.text.count("None"),
    "column": lambda e, args: args[0] + 1,
    "concat": lambda e, args: args[0],
}


def rank(e: E, known: Mapping[str, int]) -> int:
    """Return the number of axes; PLAIN for a number of Python's own. Names that are not known are sizes.

    Raises  NotSupported for a product by `@` of operands that do not have one or two axes.
    """
    args = [rank(a, known) for a in e.args]
    if e.op == "name":
        return known.get(e.text, PLAIN)
    if e.op in (Op.MATMUL, Op.DOT):  # a chain from the left: each product takes one axis of both sides
        if not all(r in (1, 2) for r in args):
            raise NotSupported("an operand of @ or dot must have one or two axes")
        left, *rest = args
        for right in rest:
            if left < 1:
                raise NotSupported("a scalar cannot be an operand of @")
            left += right - 2
        return left
    found = _RANKS.get(e.text if e.op == "call" else e.op)
    return max(args, default=PLAIN) if found is None else found(e, args)


def count_axes(e: E) -> int | None:
    """Return the number of axes, names without known axes being plain numbers; None for a plain number or an unsupported `@`."""
    if e.op == "name":
        return e.axes
    try:
        found = rank(e, {a.text: a.axes for a in e.walk() if a.op == "name" and a.axes is not None})
    except NotSupported:
        return None
    return None if found == PLAIN else found


def name_repeated_parts(
    e: E,
    taken: Sequence[str],
    known: Mapping[E, str] | None = None,
    least: int = _WORTH,
    begun: Sequence[tuple[str, E]] = (),
    steps: Mapping[E, str] | None = None,
) -> Statements:
    """Return an expression with repeated parts named, the largest first.

    Parts that the user has named, which are `known`, keep their names; repeated ones have the names of the `steps`, or new
    ones, where a name saves `least` operations or more. Parts that are `begun` have their names already.
    """
    names = dict(known or {})
    called = {e: n for e, n in (steps or {}).items() if e not in names}
    parts = list(begun)
    used = {*taken, *(n for n, _ in begun), *names.values(), *called.values()}
    while True:
        every = (a for x in (e, *(part for _, part in parts)) for a in x.walk())
        found = Counter(a for a in every if a.size >= 1 and _is_worth_naming(a))
        saved = {a: (n - 1) * a.size for a, n in found.items() if n > 1}
        lettered = {a for a in saved if a.size > 1 and not _NUMBERED.fullmatch(called.get(a, "t1"))}
        worth = {a: size for a, size in saved.items() if size >= least or a in lettered}
        worth |= {a: _USERS for a in found if a in names and a not in worth}
        if not worth:
            return Statements(_sort_by_dependency(parts), e)
        best = max(worth, key=lambda a: (worth[a] + _USERS * (a in names), a.size))
        letter = _LETTERS.get(best.text if best.op == "call" else best.op, "t")
        axes = count_axes(best)
        letter = letter.upper() if letter == "p" and axes == 2 else letter
        new = names.get(best) or called.get(best) or first_free_name([letter], letter, used)
        used.add(new)
        short = name(new, axes=axes)
        names, called = (
            {replace_part(a, best, short): n for a, n in own.items() if n != new} for own in (names, called)
        )
        e = replace_part(e, best, short)
        parts = [(n, replace_part(p, best, short)) for n, p in parts]
        parts.append((new, best))


def _is_worth_naming(e: E) -> bool:
    """Whether a name would be clearer than the part itself; identities and unit vectors, for example, are clear."""
    inner = e.args[0] if e.op == "index" else e
    return e.op not in (Op.NEG, Op.TRANSPOSE, "column") and not inner.is_call(*_KNOWN)


def with_transposes(e: E, turned: Mapping[E, E]) -> E:
    """Return an expression with the transposes of parts written as such; `turned` has how they are written otherwise."""
    for other, part in turned.items():
        e = replace_part(e, other, transpose(part))
    return e


def replace_part(e: E, old: E, new: E) -> E:
    """Return an expression with one part replaced wherever it occurs."""
    if e == old:
        return new
    if not e.args:
        return e
    return replace(e, args=tuple(replace_part(a, old, new) for a in e.args))


def _sort_by_dependency(parts: list[tuple[str, E]]) -> tuple[tuple[str, E], ...]:
    """Return the parts, each after those it uses."""
    by_name = dict(parts)
    used = {n: [a.text for a in part.walk() if a.op == "name" and a.text in by_name] for n, part in parts}
    done: list[str] = []
    while left := [n for n in by_name if n not in done]:
        done.append(next(n for n in left if not {*used[n]} & {*left}))
    return tuple((n, by_name[n]) for n in done)
