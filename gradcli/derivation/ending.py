"""What stands at the end of a derivation: parts with names, choices, Jacobians; and what a second derivative begins with."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

from gradcli.classes import dataclass
from gradcli.derivation.algebra import DENSITY, ONE, apply_rules, identity, multiply, product, sum_over
from gradcli.derivation.axes import Value, open_cross_product
from gradcli.derivation.index import (
    Atom,
    Index,
    IndexedFactor,
    IndexedTerm,
    Tensor,
    add_terms,
    fresh_index,
    tensor_of_atom,
)
from gradcli.derivation.index import add as add_tensors
from gradcli.derivation.matrix_expression import ONE as UNIT
from gradcli.derivation.matrix_expression import (
    E,
    Op,
    Statements,
    add,
    call,
    complement_of_sigmoid,
    expression_text,
    is_fraction,
    mul,
    name,
    neg,
    number,
    power,
    replace_part,
    without_minus,
)
from gradcli.derivation.matrix_expression import count_axes as axes_of
from gradcli.derivation.matrix_printing import Printer
from gradcli.derivation.simplify import open_bracket, simplified, size_of_tensor
from gradcli.derivation.sized_problem import DerivationProblem, first_free_name
from gradcli.derivation.units import cut_span, selection_matrix
from gradcli.errors import NotSupported
from gradcli.report.derive import greek_name
from gradcli.targets.expression import Expression

# How large a tensor's printed form is, so that a simplification is one for the reader.

_UNPRINTABLE = 10**6
_RANK_TWO = 3  # operations an outer product in another product counts for: it makes a matrix of two vectors
_SCALED = 3  # operations a matrix counts for that is scaled entry by entry, and then multiplies a vector
_DEGREE = 1_000  # operations that a higher degree of the cost counts for, so that no simplification raises it


def printed_size(printer: Printer, x: Tensor, axes: Sequence[Index | None]) -> int:
    """Return the size of a tensor's printed form; one without a matrix form is larger than any that has one."""
    try:
        e = printer.write(x, axes)
    except NotSupported:
        return _UNPRINTABLE * 1_000_000 + size_of_tensor(x)
    degree, scaled_matrices = _cost_of_products(e)
    products = _RANK_TWO * _count_nested_outers(e) + _SCALED * scaled_matrices + _DEGREE * degree
    # those of a part that occurs again are counted once, as where it has a name
    distinct = sum(a.size - sum(b.size for b in a.args) for a in {a for a in e.walk() if a.size})
    operations = distinct + _count_unfactored_slopes(e) + products
    # quotients that stand above or below the line of another one
    nested = sum(b.op == Op.DIV for a in e.walk() if a.op == Op.DIV for c in a.args for b in c.walk())
    return 1_000_000 * operations + 1_000 * (e.size + nested) + size_of_tensor(x)


def _count_nested_outers(e: E, inside: bool = False) -> int:
    """Return how many outer products are inside other products."""
    own = inside and e.is_call("outer", "einsum")
    deeper = inside or e.op == Op.MATMUL or e.is_call("trace", "sum", "einsum")
    return int(own) + sum(_count_nested_outers(a, deeper) for a in e.args)


def _cost_of_products(e: E) -> tuple[int, int]:
    """Return the degree of the cost of the largest product, and how many matrices are scaled to multiply a vector.

    The degree is 3 for a product of two matrices and the number of indices for an einsum; 0 stands for products that cost no
    more than to read their operands. A chain with a vector in it starts there.
    """
    inside = {*e.walk()}
    chains = [a for a in inside if a.op == Op.MATMUL]
    ranks = {b: axes_of(b) for b in {b for a in chains for b in a.args}}
    of_matrices = any(all(ranks[b] == 2 for b in a.args) for a in chains)
    sums = [len({*dict(a.options)["first"]} - {*'",->'}) for a in inside if a.is_call("einsum")]
    beside = [b for a in chains if any(ranks[b] == 1 for b in a.args) for b in a.args if ranks[b] == 2]
    scaled_ones = sum(c.op in (Op.MUL, Op.DIV) for b in beside for c in (b, *b.args))
    return max(3 * of_matrices, *sums, 0), scaled_ones


def _count_unfactored_slopes(e: E) -> int:
    """Return what powers count for that textbooks write as slopes: s (1 - s) of a sigmoid, h (1 - h**2) of tanh."""
    own = _SLOPES.get((e.args[0].text, e.args[1]), 0) if e.op == Op.POW and e.args[0].op == "call" else 0
    return own + sum(map(_count_unfactored_slopes, e.args))


_SLOPES = {("sigmoid", number(Fraction(2))): 1, ("tanh", number(Fraction(3))): 2}  # operations that the slope has more


# Parts of a derivative that textbooks name although they occur once: standardised values, errors of layers, the density.
#
# `x-hat` of layer, batch and root-mean-square norms; `delta` of backpropagation; `phi`, the density of the normal distribution.

Parts = tuple[tuple[str, E], ...]


@dataclass(frozen=True)
class NamedParts:
    """A derivative in terms of its named parts, in order; some are values that are `standardised`.

    `tensor` is the derivative in terms of the errors of layers, None where no part is one.
    """

    e: E
    parts: Parts = ()
    standardised: bool = False
    tensor: Tensor | None = None

    @property
    def every(self) -> tuple[E, ...]:
        """The derivative and its parts."""
        return (self.e, *(part for _, part in self.parts))

    def map_expressions(self, rewrite: Callable[[E], E]) -> "NamedParts":
        """Return the derivative rewritten, and its parts with it."""
        return replace(self, e=rewrite(self.e), parts=tuple((n, rewrite(part)) for n, part in self.parts))

    def written_out(self, e: E) -> E:
        """Return a part without the names of other parts."""
        for word, own in reversed(self.parts):
            e = replace_part(e, name(word), own)
        return e


_WORTH = 3  # operations of the error of a single layer that has a name, a product with the slope of its function
ERROR = "delta"


def name_layer_errors(
    whole: Tensor, errors: Mapping[str, Value], axes: Sequence[Index | None], printer: Printer, *, chained: bool
) -> NamedParts | None:
    """Return a derivative in terms of the errors of layers; None where the error of a single layer needs no name."""

    def smallest(x: Tensor, own: Sequence[Index | None]) -> tuple[Tensor, E]:
        small = simplified(x, lambda t: printed_size(printer, t, own))
        return small, printer.oriented(printer.write(small, own))

    found = {word: smallest(x.tensor, x.singles)[1] for word, x in errors.items()}
    if not chained and any(e.op != Op.MUL or e.size < _WORTH for e in found.values()):
        return None
    parts = [(word, without_minus(_factor_out_number(e))) for word, e in found.items()]
    small, e = smallest(whole, axes)
    return NamedParts(e, tuple(parts), tensor=small)


def _factor_out_number(e: E) -> E:
    """Return a sum with a number that all its terms have before it: 2 (p - y)."""
    terms = [a.args[0] if a.op == Op.NEG else a for a in e.args] if e.op == Op.ADD else []
    numbers = {a.args[0] if a.op == Op.MUL and a.args[0].op == "number" else None for a in terms}
    first = numbers.pop() if len(numbers) == 1 else None
    if first is None:
        return e
    rest = [mul([*t.args[1:]]) for t in terms]
    return mul([first, add([neg(r) if a.op == Op.NEG else r for a, r in zip(e.args, rest, strict=True)])])


def distinct_name(stems: Sequence[str], stem: str, taken: Collection[str]) -> str:
    """Return a name that no other has, and that no other looks like in a formula."""
    shown = {greek_name(name) for name in taken}
    alike = [name for name in (*stems, *(f"{stem}{k}" for k in range(1, 100))) if greek_name(name) in shown]
    return first_free_name(stems, stem, [*taken, *alike])


# --- values less their mean, over their standard deviation --------------------------------------------------------------


def name_standardised(x: Tensor, axes: Sequence[Index | None], printer: Printer, taken: Collection[str]) -> NamedParts:
    """Return a derivative in terms of x-hat, where its terms have one power of the deviation then; no name is `taken`."""
    for f in (f for t in x.terms for f in t.factors if f.power < 0 and f.power.denominator == 2):
        for c in _values_in_mean_square(f):
            word = distinct_name(["xhat"], "xhat", taken)
            hat = Atom("input", word, dims=c.atom.dims)
            terms = [_substitute_xhat(t, f, c, hat) for t in x.terms]
            powers = {p for _, p, _ in terms}
            if len(powers) > 1 or max(count for _, _, count in terms) < _SQUARED:
                continue
            inside = add_terms([apply_rules(t, x.free) for t, _, _ in terms], x.free)
            small = simplified(inside, lambda t: printed_size(printer, t, axes))
            deviation = Tensor(f.at, (IndexedTerm(ONE, (f._replace(power=Fraction(-1, 2)),)),))
            own = dict(zip(_places_of_indices(f, c), f.at, strict=True))
            at = tuple(own.get(k, i) for k, i in enumerate(c.at))
            value = multiply(tensor_of_atom(c.atom, at), deviation)
            definition = printer.write(value, at)
            return NamedParts(printer.write(small, axes), ((word, definition),), standardised=True)
    return NamedParts(printer.oriented(printer.write(x, axes)))


_SQUARED = 2  # times at least that a term has the values: once as they are, once in the mean with the cotangent


def _values_in_mean_square(f: IndexedFactor) -> Iterator[IndexedFactor]:
    """Yield the values whose mean square is a term of a bracket, with the slots of the bracket among their indices."""
    if f.atom.op != "group":
        return
    (inner,) = f.atom.args
    for term in inner.terms:
        squares = [g for g in term.factors if g.power == 2 and g.atom.op in ("group", "input")]
        rest = [g for g in term.factors if g not in squares]
        sizes = {g.atom.name for g in rest if g.atom.op == "size" and g.power == -1}
        if len(squares) != 1 or len(sizes) != len(rest):
            continue
        (c,) = squares
        summed = [i for i in c.at if i not in inner.free]
        if summed and {i.dim for i in summed} == sizes and len(inner.terms) > 1 and set(inner.free) <= set(c.at):
            yield c._replace(power=ONE)


def _places_of_indices(f: IndexedFactor, c: IndexedFactor) -> list[int]:
    """Return where the values have each index of the bracket, in the order of the bracket's indices."""
    slots = {-1 - i.id: k for k, i in enumerate(c.at) if i in f.atom.args[0].free}
    return [slots[k] for k in range(len(f.at))]


def _substitute_xhat(
    term: IndexedTerm, f: IndexedFactor, c: IndexedFactor, hat: Atom
) -> tuple[IndexedTerm, Fraction, int]:
    """Return a term with x-hat, the power of the mean square that is left, and how often it has x-hat."""
    factors: list[IndexedFactor] = []
    count = 0
    left: dict[tuple[Index, ...], Fraction] = {}
    for g in term.factors:
        if g.atom == f.atom:
            left[g.at] = left.get(g.at, Fraction(0)) + g.power
        elif g.atom == c.atom and g.power.denominator == 1 and g.power > 0:
            at = tuple(g.at[k] for k in _places_of_indices(f, c))
            left[at] = left.get(at, Fraction(0)) + g.power / 2
            count += int(g.power)
            factors.append(IndexedFactor(hat, g.at, g.power))
        else:
            factors.append(g)
    factors += [IndexedFactor(f.atom, at, p) for at, p in left.items() if p]
    return IndexedTerm(term.coef, tuple(factors)), sum(left.values(), Fraction(0)), count


def use_known_names(made: NamedParts, known: Mapping[E, str]) -> NamedParts:
    """Return a derivative without names for parts that are `known` by another one, which they get where it is printed."""
    e, parts = made.e, []
    for word, part in made.parts:
        if part in known:
            e = replace_part(e, name(word, axes=axes_of(part)), part)
        else:
            parts.append((word, part))
    return replace(made, e=e, parts=tuple(parts))


# --- the normal distribution --------------------------------------------------------------------------------------------


def name_densities(made: NamedParts, taken: Collection[str]) -> NamedParts:
    """Return a derivative with the densities as parts with names."""
    two, half = number(Fraction(2)), Fraction(1, 2)
    while found := [a for x in made.every for a in x.walk() if a.is_call(DENSITY)]:
        density = min(found, key=lambda a: sum(b.is_call(DENSITY) for b in a.walk()))  # with none inside
        (u,) = density.args
        word = distinct_name(["phi"], "phi", [*taken, *(n for n, _ in made.parts)])
        made = made.map_expressions(partial(replace_part, old=density, new=name(word, axes=axes_of(u))))
        above, below = ([], [two]) if is_fraction(half) else ([number(half)], [])
        bell = call("exp", neg(mul([*above, power(u, Fraction(2))], below)))
        part = mul([bell], [call("sqrt", mul([two, name("pi", axes=0)]))])
        made = replace(made, parts=(*made.parts, (word, part)))
    return made


def write_complements(made: NamedParts, known: Mapping[E, str]) -> tuple[NamedParts, dict[E, str]]:
    """Return a derivative with 1 - sigmoid(u) for sigmoid(-u), where sigmoid(u) is beside it or among the `known` values.

    The second result is `known`, written so. Not in a logarithm, which is finite where sigmoid(-u) is smaller than the
    rounding of 1 - sigmoid(u).
    """
    inside = {a for x in made.every for a in x.walk()}
    logs = {b for a in inside if a.is_call("log") for b in a.walk()}
    pairs: list[tuple[E, E]] = []

    def place(s: E) -> tuple[bool, bool, str]:
        minus = any(a.op == Op.NEG or (a.op == Op.ADD and a.args[0].op == Op.NEG) for a in s.args)
        return s not in known, minus, expression_text(s)

    for s in sorted({*known} | inside, key=place):
        other = complement_of_sigmoid(s)
        if other is not None and other in inside - logs and s not in logs:
            inside -= {other, s}
            pairs.append((other, add([UNIT, neg(s)])))

    def written(e: E) -> E:
        for other, rest in pairs:
            e = replace_part(e, other, rest)
        return e

    return made.map_expressions(written), {written(e): n for e, n in known.items()}


# Products with an indicator, as a choice: 0 times a value that is not finite is not 0 in code.

_UNBOUNDED = {
    "log", "log1p", "log2", "log10", "sqrt", "exp", "exp2", "expm1", "sinh", "cosh", "tan", "arcsin", "arccos", "arccosh",
    "arctanh", "logit", "xlogy", "entr", "gamma", "gammaln", "digamma", "norm", "inv",
}  # fmt: skip


def write_choices(e: E, shared: bool = True, masks: Sequence[str] = ()) -> E:
    """Return where(c, u, 0) for each product of an indicator and a value that may not be finite elsewhere.

    `shared` leaves out values that have no input of the condition. The inputs `masks` are 0 or 1: indicators, too.
    """
    shown = {x: E("compare", (x, _NOTHING), "!=") for x in e.walk() if x.op == "name" and x.text in masks}
    for mask, condition in shown.items():
        e = replace_part(e, mask, condition)
    e = _choose(e, shared)
    for mask, condition in shown.items():
        e = _outside_choices(e, condition, mask)
    return e


def _outside_choices(e: E, old: E, new: E) -> E:
    """Return an expression with one part replaced wherever it occurs, but for the conditions of its choices."""
    if e == old:
        return new
    kept = 1 if e.text == "where" else 0
    return replace(e, args=(*e.args[:kept], *(_outside_choices(a, old, new) for a in e.args[kept:])))


def _choose(e: E, shared: bool) -> E:
    e = replace(e, args=tuple(_choose(a, shared) for a in e.args))
    if e.op == Op.NEG and e.args[0].text == "where":
        c, yes, no = e.args[0].args
        return call("where", c, _negate_unless_zero(yes), _negate_unless_zero(no))
    if e.op == Op.ADD:
        return _merge_choices(e.args)
    if e.op == Op.DOT:
        both = (_choice_of_product(factors, shared) for factors in (e.args, e.args[::-1]))
        return next((call("sum", x) for x in both if x.text == "where"), e)
    if e.op == Op.DIV:
        above, below = e.args
        return _choice_of_product(above.args if above.op == Op.MUL else (above,), shared, [below])
    return _choice_of_product(e.args, shared) if e.op == Op.MUL else e


_NOTHING = number(Fraction(0))
_MOST_WHOLE = 100  # powers below it are finite wherever their base is of a usual size


def _choice_of_product(factors: Sequence[E], shared: bool, below: Sequence[E] = ()) -> E:
    """Return a quotient of products as a choice by its indicators, or those that the others share inputs with."""
    rest, chosen = list(factors), []
    for f in factors:
        condition = _indicated_condition(f)
        others = [a for a in rest if a is not f]
        if condition is not None and _may_be_unbounded(mul(others, list(below)), f if shared else None):
            rest = rest if condition[0].args[0] == f else others
            chosen.append(condition)
    e = mul(rest, list(below))
    for c, holds in chosen:
        e = call("where", c, e, _NOTHING) if holds else call("where", c, _NOTHING, e)
    return e


def _merge_choices(terms: Sequence[E]) -> E:
    """Return a sum with its choices by one condition as one, to which products with the condition belong."""
    for c in dict.fromkeys(term.args[0] for term in terms if term.text == "where"):
        parts = [_split_by_condition(c, term) for term in terms]
        found = [part for part in parts if part is not None]
        if len(found) > 1:
            branches = ([b for b in several if b != _NOTHING] for several in zip(*found, strict=True))
            yes, no = (add(several) if several else _NOTHING for several in branches)
            others = [term for term, part in zip(terms, parts, strict=True) if part is None]
            return _merge_choices([*others, call("where", c, yes, no)])
    return add(list(terms))


def _split_by_condition(c: E, term: E) -> tuple[E, E] | None:
    """Return what a term is where a condition holds, and where it does not; None where it does not have the condition."""
    if term.op == Op.NEG:
        found = _split_by_condition(c, term.args[0])
        return None if found is None else (_negate_unless_zero(found[0]), _negate_unless_zero(found[1]))
    if term.text == "where":
        return (term.args[1], term.args[2]) if term.args[0] == c else None
    factors = term.args if term.op == Op.MUL else (term,)
    for f in factors:
        condition = _indicated_condition(f)
        if condition is not None and condition[0] == c:
            rest = mul([a for a in factors if a is not f or c.args[0] == f])
            return (rest, _NOTHING) if condition[1] else (_NOTHING, rest)
    return None


def _negate_unless_zero(e: E) -> E:
    return e if e == _NOTHING else neg(e)


def _indicated_condition(e: E) -> tuple[E, bool] | None:
    """Return the comparison of which a value is the indicator, and whether of where it holds; None for anything else.

    Of a sum of several indicators, it is whether the sum is not 0.
    """
    if e.op == "compare":
        return e, True
    if e.op == Op.ADD and len(e.args) == 2 and e.args[0] == UNIT and e.args[1].op == Op.NEG:
        (inner,) = e.args[1].args
        if inner.op == "compare":
            return inner, False
    several = (e.op == Op.ADD or e.text == "where") and _is_made_of_indicators(e)
    return (E("compare", (e, _NOTHING), "!="), True) if several else None


def _is_made_of_indicators(e: E) -> bool:
    """Whether an expression is made of indicators and numbers."""
    made = e.op in (Op.ADD, Op.NEG, Op.MUL) or e.text == "where"
    return e.op in ("compare", "number") or (made and all(map(_is_made_of_indicators, e.args)))


def _names_in_expression(e: E) -> set[str]:
    return {a.text for a in e.walk() if a.op == "name"}


def _may_be_unbounded(e: E, beside: E | None) -> bool:
    """Whether an expression has a function that is not finite everywhere, of some of the names in another one, if given."""
    for a in e.walk():
        powers = a.op == Op.POW and not (a.args[1].op == "number" and a.args[1].number in range(_MOST_WHOLE))
        inside = a.args[1] if a.op == Op.DIV else a
        looked_at = beside is None or _names_in_expression(inside) & _names_in_expression(beside)
        if looked_at and (powers or a.op == Op.DIV or a.is_call(*_UNBOUNDED)):
            return True
    return False


def write_in_cases(x: Tensor, axes: Sequence[Index | None], printer: Printer) -> E | None:
    """Return a sum with terms that have an indicator, and others, as a choice by what it indicates; None for other sums."""
    return printer.by_cases(x, axes, lambda branch: simplified(branch, lambda t: printed_size(printer, t, axes)))


# Jacobians, as the coefficient of the seed of a reverse sweep, and second derivatives, as the gradient differentiated again.


def coefficient_of_seed(x: Tensor, seed: str, output: tuple[Index, ...]) -> Tensor:
    """Return the Jacobian: the coefficient of the seed, a tensor with the indices of the output first.

    Raises  NotSupported if the seed is inside a function that is not opened.
    """
    free = (*output, *x.free)
    parts = []
    for term in _open_around_seed(x, seed).terms:
        f = next(f for f in term.factors if _is_seed(f.atom, seed))
        own = tuple(dict.fromkeys((*x.free, *f.at)))
        rest = Tensor(own, (term.without(f),))
        whole = multiply(rest, product(_derivative_of_seed(f, output)))
        parts.append(sum_over(whole, [i for i in own if i not in x.free]))
    return Tensor(free, tuple(apply_rules(t, free) for t in add_tensors(parts, free).terms))


def jacobian_with_deltas(x: Tensor, seed: str, output: tuple[Index, ...]) -> Tensor | None:
    """Return the Jacobian with a Kronecker delta for each index of the seed, not summed; None for a part of the seed."""
    terms = []
    for term in _open_around_seed(x, seed).terms:
        f = next(f for f in term.factors if _is_seed(f.atom, seed))
        if f.atom.op == "slice":
            return None
        deltas = (IndexedFactor(identity(i.dim), (i, o), ONE) for i, o in zip(f.at, output, strict=True))
        terms.append(term.without(f).times(*deltas))
    return Tensor((*output, *x.free), tuple(terms))


def _derivative_of_seed(f: IndexedFactor, output: tuple[Index, ...]) -> list[Tensor]:
    """Return the derivative of the seed, or of a part of it, by the output: identities, cut in the same way."""
    if f.atom.op != "slice":
        return [tensor_of_atom(identity(i.dim), (o, i)) for i, o in zip(f.at, output, strict=True)]
    (g,) = f.atom.args[0].terms[0].factors
    k = f.atom.axes[0]
    whole = fresh_index(g.at[k].dim)
    at = tuple(whole if n == k else i for n, i in enumerate(f.at))
    found = _derivative_of_seed(g._replace(at=at), output)
    return [cut_span(c, whole, f.at[k], f.atom.name) if whole in c.free else c for c in found]


def _open_around_seed(x: Tensor, seed: str) -> Tensor:
    """Return a tensor with brackets around the seed opened, so that the seed is a factor of each term."""
    pending, done = list(x.terms), []
    while pending:
        term = pending.pop()
        if any(_is_seed(f.atom, seed) for f in term.factors):
            done.append(term)
            continue
        f = next((f for f in term.factors if f.power == 1 and any(seed in arg.inputs for arg in f.atom.args)), None)
        if f is not None and f.atom.op == "group":
            pending += open_bracket(term, f, x.free).terms
        elif f is not None and f.atom.op in ("pad", "cross"):
            (i,) = f.at
            whole = open_cross_product(f) if f.atom.op == "cross" else _open_padded_vector(f)
            rest = Tensor(tuple(dict.fromkeys((*x.free, i))), (term.without(f),))
            parts = [multiply(rest, Tensor(f.at, (part,))) for part in whole.terms]
            pending += [t for part in parts for t in (part if i in x.free else sum_over(part, [i])).terms]
        else:
            raise NotSupported("an index of an indexed array has no derivative in closed form")
    return add_terms(done, x.free)


def _open_padded_vector(f: IndexedFactor) -> Tensor:
    """Return a padded vector as the product of rows of the identity and the vector."""
    (inside,) = f.atom.args
    (i,), (old,) = f.at, inside.free
    new = fresh_index(old.dim)
    return sum_over(multiply(inside.renamed({old: new}), selection_matrix(f.atom.name, new, i)), [new])


def _is_seed(atom: Atom, seed: str) -> bool:
    """Whether an atom is the seed, or a part of it."""
    while atom.op == "slice":
        atom = atom.args[0].terms[0].factors[0].atom
    return atom.op == "input" and atom.name == seed


OPEN = {"positive"}  # facts that hold all around a point, so that what they imply can be differentiated


@dataclass(frozen=True)
class Begun:
    """The gradient's closed form, from which a second derivative starts: as a function, as statements, and with its names."""

    f: Expression
    made: Statements
    known: dict[E, str]


def add_direction(problem: DerivationProblem, wrt: str) -> DerivationProblem:
    """Return the problem with a direction as an extra input, if the second derivative has four indices or more."""
    dims = problem.dims[wrt]
    if len(dims) < 2:
        return problem
    v = first_free_name(("V", f"d{wrt}"), "V", {*problem.dims, *problem.names})
    tied = "tied" in problem.facts.get(wrt, ())
    facts = {**problem.facts, **({v: frozenset({"symmetric"})} if tied else {})}
    return replace(problem, dims={**problem.dims, v: dims}, facts=facts, direction=v)


MIRRORED = frozenset({"symmetric", "spd", "tied", "diagonal"})  # what makes a matrix its own transpose
