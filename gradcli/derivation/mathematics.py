"""Formulas as mathematics: what numpy broadcasts is written with vectors of ones, diagonal matrices and outer products.

An expression of arrays (`expression.E`) becomes a tree of signs that textbooks have, which every notation writes. A vector is
a column; a product of neighbours is the matrix product, and the elementwise product has a sign of its own.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from gradcli.classes import dataclass
from gradcli.derivation.algebra import DENSITY, is_exp_of_logs
from gradcli.derivation.axes import EXTREMES, OPAQUE, Value
from gradcli.derivation.index import Atom, Index, IndexedFactor, IndexedTerm, Tensor, slot
from gradcli.derivation.matrix_expression import ONE as UNIT
from gradcli.derivation.matrix_expression import (
    E,
    Op,
    Statements,
    add,
    complement_of_sigmoid,
    count_axes,
    expression_text,
    mul,
    name,
    neg,
    number,
    power,
    replace_part,
    transpose,
    with_transposes,
)
from gradcli.derivation.matrix_printing import (
    NAMES,
    ONE_ENTRY,
    SHAPELESS,
    SIGNS,
    Printer,
    Shape,
    Shapes,
    factors_in,
    is_indicator,
    is_vector,
    substitute_indicator,
)
from gradcli.derivation.notation import (  # fmt: skip
    IDENTITY,
    ONE,
    ONES,
    ZERO,
    Latex,
    M,
    Mathml,
    Notation,
    Plain,
    Sign,
    Unicode,
    density_formula,
    entrywise_product,
    function_formula,
    multiply_neighbours,
    number_formula,
    place_among_factors,
    sort_by_degree,
    transpose_formula,
)
from gradcli.derivation.units import Position, parse_position
from gradcli.errors import NotSupported
from gradcli.report.derive import Step, greek_name, index_letters

_Written = tuple[str, str, str]  # Unicode, LaTeX and MathML


_PARTS = (
    {"slice", "pad", "inv", "det", "expm", "sqrtm", "logm", "pinv"} | OPAQUE
) - EXTREMES  # written as arrays, indices after them
Dims = Mapping[str, Sequence[str]]


def write_with_indices(x: Tensor, axes: Sequence[Index | None], name: str, dims: Dims) -> _Written:
    """Return a tensor with indices as a line of text, G[i,j] = sum_k A[i,k]*B[k,j], in LaTeX and in MathML."""
    letters, formula = entry_of(x, axes, dims, name)
    left = _with_letters(M(Sign.NAME, text=name), letters)
    return _write_formulas([(left, formula)], (Plain([*dims]), Latex([*dims]), Mathml([*dims])))


def _write_formulas(formulas: Sequence[tuple[M, M]], notations: Sequence[Notation]) -> _Written:
    """Return formulas, each with its left side, in three notations."""
    text, latex, mathml = (
        w.statements([(w.write(left), w.write(right)) for left, right in formulas]) for w in notations
    )
    return text, latex, mathml


_ALONG = {"0": "columns", "1": "rows"}
_SIGNS = {"ndtr": ("Φ", "Phi"), DENSITY: ("φ", "phi")}  # and the words that are printed as these signs


class Writing:
    """Turns expressions into mathematics.

    `shapes` knows the sizes of their names, `symbols` those that stand for a sign; matrices with `symmetric` names are their
    own transposes.
    """

    def __init__(self, shapes: Shapes, symbols: Mapping[str, M] | None = None, symmetric: Iterable[str] = ()) -> None:
        self.shapes = shapes
        self.symmetric = set(symmetric)
        self.symbols = {} if symbols is None else symbols

    def formula(self, e: E) -> M:
        """Return an expression as mathematics. Raises NotSupported for what only indices can write."""
        if e.op == "name":
            return self.symbols.get(e.text) or M(Sign.NAME, text=e.text)
        if e.op == "number":
            return number_formula(e.number)
        if e.op == Op.NEG:
            inner = self.formula(e.args[0])
            return inner.args[0] if inner.sign is Sign.MINUS else M(Sign.MINUS, (inner,))
        shape = self.shapes.of(e)
        if len(shape) > 2:
            raise NotSupported("an array of more than two axes is written with indices")
        written = _OPERATIONS.get(e.op)
        return self._write_call(e, shape) if written is None else written(self, e, shape)

    # --- sums and products -------------------------------------------------------------------------------------------

    def _write_sum(self, e: E, shape: Shape) -> M:
        terms = [self._write_term(a, shape) for a in e.args]
        matrix = len(shape) == 2 and not is_vector(shape)
        if matrix and any(map(_is_matrix_product, terms)):  # no number is added to these
            bare = [t.args[0] if t.sign is Sign.MINUS else t for t in terms]
            numbers = [x.sign is Sign.NUMBER for x in bare]
            terms = [multiply_neighbours([t, _OF_ONES]) if n else t for t, n in zip(terms, numbers, strict=True)]
        return M(Sign.SUM, tuple(sort_by_degree(terms)))

    def _write_term(self, a: E, shape: Shape) -> M:
        """Return a term of a sum in the shape of the sum: what is broadcast has ones beside it."""
        if a.op == Op.NEG:
            return M(Sign.MINUS, (self._write_term(a.args[0], shape),))
        return self.formula(a) if a.op == "number" else self._write_broadcast(a, shape)

    def _write_broadcast(self, e: E, shape: Shape) -> M:
        """Return a number, a row or a column as an array of a shape, with vectors of ones."""
        own = self.shapes.of(e)
        if len(own) == len(shape) and is_vector(own) == is_vector(shape):
            return self.formula(e)
        if not own:
            ones = [ONES] if is_vector(shape) else [ONES, transpose_formula(ONES)]
            return multiply_neighbours([self.formula(e), *ones])
        if own[-1] == "1":
            return multiply_neighbours([self.formula(e), transpose_formula(ONES)])
        row = self.row(e) if len(own) == 1 else self.formula(e)
        return row if shape[0] == "1" else multiply_neighbours([ONES, row])

    def _write_operand(self, e: E, shape: Shape) -> M:
        """Return an operand of a function by entries: arrays in the shape of the result, numbers as they are."""
        return self._write_broadcast(e, shape) if self.shapes.of(e) else self.formula(e)

    def row(self, e: E) -> M:
        """Return the transpose of a vector; of a product, of its factors."""
        if e.op == Op.NEG:
            return multiply_neighbours([M(Sign.MINUS, (ONE,)), self.row(e.args[0])])
        if e.op == Op.DIV and not self.shapes.of(e.args[1]):
            return M(Sign.OVER, (self.row(e.args[0]), self.formula(e.args[1])))
        numbers = [a for a in e.args if not self.shapes.of(a)] if e.op == Op.MUL else []
        if numbers and len(numbers) == len(e.args) - 1:
            (array,) = (a for a in e.args if a not in numbers)
            return multiply_neighbours([*sorted(map(self.formula, numbers), key=place_among_factors), self.row(array)])
        x = self.formula(e)
        factors = 2 if e.is_call("sum") and e.options else len(e.args) if e.op == Op.MATMUL else 0
        if x.sign is Sign.BESIDE and len(x.args) == factors:  # no number is among them, which has no transpose
            return multiply_neighbours([self._transpose_unless_symmetric(p) for p in reversed(x.args)])
        return self._transpose_unless_symmetric(x)

    def _transpose_unless_symmetric(self, x: M) -> M:
        """Return a transpose; a symmetric matrix and its inverse are their own."""
        inner = x.args[0] if x.sign is Sign.INVERSE else x
        return x if inner.sign is Sign.NAME and inner.text in self.symmetric else transpose_formula(x)

    def _write_product(self, e: E, shape: Shape) -> M:
        """Return a product in the shape that it has: rows and columns that are broadcast over a matrix are diagonal ones."""
        numbers, matrices, rows, columns = (list[M]() for _ in range(4))
        flat = len(shape) == 2 and shape[0] == "1"  # a row, not made of vectors that are broadcast
        for a in e.args:
            own = self.shapes.of(a)
            if not own:
                kind = numbers
            elif len(own) == 1 or own[0] == "1":
                kind = rows
            else:
                kind = columns if own[-1] == "1" else matrices
            turned = kind is rows and (len(own) == 2) != flat
            kind.append(transpose_formula(self.formula(a)) if turned else self.formula(a))
        numbers.sort(key=place_among_factors)
        if not shape:
            return multiply_neighbours(numbers)
        if is_vector(shape):
            dots = [x for x in numbers if x.sign is Sign.BESIDE and x.args[0].sign is Sign.TRANSPOSE]
            return multiply_neighbours([*numbers, entrywise_product([*rows, *columns])], brackets=dots)
        matrices = [x for x in matrices if x != _OF_ONES]
        if not matrices:
            left, right = (entrywise_product(x) if x else ONES for x in (columns, rows))
            return multiply_neighbours([*numbers, left, transpose_formula(right)])
        before, after = ([function_formula("diag", entrywise_product(x))] if x else [] for x in (columns, rows))
        return multiply_neighbours([*numbers, *before, entrywise_product(matrices), *after])

    def _write_quotient(self, e: E, shape: Shape) -> M:
        top, low = e.args
        above, below = self.shapes.of(top), self.shapes.of(low)
        if not below or above == below or is_vector(shape):
            return M(Sign.OVER, (self.formula(top), self.formula(low)))
        if not is_vector(below):
            return M(Sign.OVER, (self._write_term(top, shape), self.formula(low)))
        inverse = M(Sign.OVER, (ONE, self.formula(low)))
        if is_vector(above) or not above:
            parts = [self.formula(top), ONES] if not above else [self.formula(top)]
            if below[-1] == "1":
                return multiply_neighbours([inverse, transpose_formula(multiply_neighbours(parts))])
            return multiply_neighbours([*parts, transpose_formula(inverse)])
        diagonal = function_formula("diag", inverse)
        return multiply_neighbours([diagonal, self.formula(top)] if below[-1] == "1" else [self.formula(top), diagonal])

    def _write_matmul(self, e: E, shape: Shape) -> M:
        parts = [self.formula(a) for a in e.args]
        ranks = [len(self.shapes.of(a)) for a in e.args]
        if ranks[0] == 1 and shape:
            turned = [self._transpose_unless_symmetric(p) if r == 2 else p for p, r in zip(parts, ranks, strict=True)]
            return multiply_neighbours(turned[::-1])
        return multiply_neighbours([transpose_formula(parts[0]), *parts[1:]] if ranks[0] == 1 else parts)

    def _write_dot(self, e: E, shape: Shape) -> M:
        a, b = map(self.formula, e.args)
        if a == b:
            return M(Sign.POWER, (M(Sign.NORM, (a,)), number_formula(Fraction(2))))
        return multiply_neighbours([self.row(e.args[0]), b])

    # --- powers, parts, comparisons ----------------------------------------------------------------------------------

    def _write_power(self, e: E, shape: Shape) -> M:
        base, p = (self._write_operand(a, shape) for a in e.args)
        squared_norm = base.sign is Sign.POWER and base.args[0].sign is Sign.NORM
        if squared_norm and p.sign is Sign.NUMBER:
            base, p = base.args[0], number_formula(base.args[1].number * p.number)
        return M(Sign.ENTRY_POWER if len(shape) == 2 and not is_vector(shape) else Sign.POWER, (base, p))

    def _write_transpose(self, e: E, shape: Shape) -> M:
        inner = self.formula(e.args[0])
        return inner if e.args[0].op == "column" else self._transpose_unless_symmetric(inner)

    def _write_comparison(self, e: E, shape: Shape) -> M:
        place, along = e.args
        inner = along.args[0] if along.op == "column" else along
        if inner.is_call("arange"):
            if len(shape) == 1:
                return M(Sign.UNIT, (self.formula(place),))
            found = function_formula("onehot", self.formula(place))
            return found if inner is along else transpose_formula(found)
        return M(Sign.TRUTH, tuple(self._write_operand(a, shape) for a in e.args), e.text)

    def _write_index(self, e: E, shape: Shape) -> M:
        inner = e.args[0]
        if inner.is_call("eye") and "," not in e.text and len(shape) == 1:
            return M(Sign.UNIT, text=e.text[1:-1])
        parts = [p.strip() for p in e.text[1:-1].split(",")]
        if parts == ["None"] and len(self.shapes.of(inner)) == 1:
            return self.row(inner)
        if "None" in parts:
            raise NotSupported("a product of more than two axes is written with indices")
        lengths = self.shapes.of(inner)
        if inner.op == "name" and all(p == ":" or (p, d) == ("0", "1") for p, d in zip(parts, lengths, strict=False)):
            whole = self.formula(inner)  # a row without its axis of length 1 is a vector
            row = parts[0] == "0" and len(lengths) == 2 and len(shape) == 1
            return transpose_formula(whole) if row else whole
        return M(Sign.AT, (self.formula(inner),), e.text[1:-1])

    def _write_padded_vector(self, e: E, shape: Shape) -> M:
        before, after = ([ZERO] * text.count("0") for text in e.text.split("|"))
        return M(Sign.JOINED, (*before, self.formula(e.args[0]), *after))

    def word(self, name: str) -> str:
        """Return the usual sign of a function, unless an input has that name: Φ and φ of the normal distribution."""
        sign, word = _SIGNS.get(name, (name, name))
        return name if {sign, word} & set(self.shapes.known) else sign

    # --- functions ---------------------------------------------------------------------------------------------------

    def _write_call(self, e: E, shape: Shape) -> M:
        name = self.word(e.text.rpartition(".")[2])
        if name in ("ones", "ones_like", "zeros", "zeros_like"):
            return ZERO if name.startswith("zeros") else ONES if len(shape) == 1 else _OF_ONES
        if name == "eye":
            return IDENTITY
        if name == "einsum":
            raise NotSupported("einsum is written with indices")
        if name == "concatenate":
            below = len(shape) == 2 and dict(e.options)["axis"] == "0"
            parts = tuple(self.formula(_unwrap_number(a)) for a in e.args)
            return M(Sign.JOINED, parts, along="rows" if below else "")
        args = [self.formula(a) for a in e.args]
        if name == DENSITY:
            return density_formula(args[0])
        axis = dict(e.options).get("axis")
        if axis is not None and len(self.shapes.of(e.args[0])) == 2 and name in ("sum", "mean"):
            return self._write_along_axis(name, args[0], self.shapes.of(e.args[0]), axis)
        if name == "sum" and axis is None and (factors := self._factors_of_trace(e.args[0])):
            return function_formula("tr", multiply_neighbours([self.row(factors[0]), self.formula(factors[1])]))
        squares = args[0].sign is Sign.ENTRY_POWER and args[0].args[1] == number_formula(Fraction(2))
        if name == "sum" and axis is None and squares:
            return M(Sign.POWER, (M(Sign.NORM, args[0].args[:1]), args[0].args[1]))
        if name == "outer":
            return multiply_neighbours([args[0], self.row(e.args[1])])
        if name == "where":
            return self._write_choice(e, shape)
        made = _CALLS.get(name)
        if made is not None:
            return made(*args)
        if len(args) > 1 and name not in OPAQUE:
            args = [self._write_operand(a, shape) for a in e.args]
        along = _ALONG[axis] if axis in _ALONG and len(self.shapes.of(e.args[0])) == 2 else ""
        return function_formula(name, *args, along=along)

    def _write_choice(self, e: E, shape: Shape) -> M:
        """Return a choice as cases; one between a value and 0 as a product with an indicator, whatever the value is there."""
        condition, yes, no = e.args
        nothing = number(Fraction(0))
        if nothing in (yes, no):
            other = replace(condition, text=_OPPOSITE[condition.text])
            return self.formula(mul([condition, yes] if no == nothing else [other, no]))
        truth = self._condition_of_triangle(condition.args[0]) or self._write_comparison(condition, shape)
        return M(Sign.CASES, (*(self._write_operand(a, shape) for a in (yes, no)), *truth.args), truth.text)

    def _condition_of_triangle(self, e: E) -> M | None:
        """Return where a triangle of ones has its ones, as i >= j; None for anything else."""
        turned = e.op == Op.TRANSPOSE
        inner = e.args[0] if turned else e
        if inner.text != "tril" or inner.args[0].text != "ones":
            return None
        i, j = (M(Sign.NAME, text=letter) for letter in index_letters(frozenset(self.shapes.known))[:2])
        row, column = (j, i) if turned else (i, j)
        before = row if len(inner.args) == 1 else M(Sign.SUM, (row, self.formula(inner.args[1])))
        return M(Sign.TRUTH, (before, column), ">=")

    def _factors_of_trace(self, e: E) -> tuple[E, ...]:
        """Return the two matrices of sum(A * B), which is tr(A.T @ B), if one is a product, an inverse or a differential."""
        shapes = [self.shapes.of(a) for a in e.args] if e.op == Op.MUL and len(e.args) == 2 else [()]
        inner = [a.args[0] if a.op == Op.TRANSPOSE else a for a in e.args]
        moved = any(a.op == "name" and a.text in self.symbols for a in inner)
        special = moved or any(a.op == Op.MATMUL or a.is_call("inv") for a in inner)
        return e.args if special and all(len(s) == 2 and not is_vector(s) for s in shapes) else ()

    def _write_along_axis(self, name: str, x: M, shape: Shape, axis: str) -> M:
        """Return the sum or the mean of the rows or of the columns of a matrix, as a product with ones."""
        total = multiply_neighbours([x if axis == "1" else transpose_formula(x), ONES])
        if name == "sum":
            return total
        size = shape[int(axis)]
        if size == SHAPELESS:
            return function_formula(name, x, along=_ALONG[axis])
        count = M(Sign.NUMBER, number=Fraction(int(size))) if size.isdecimal() else M(Sign.NAME, text=size)
        return M(Sign.OVER, (total, count))


def _unwrap_number(e: E) -> E:
    """Return an array of one entry as that number; any other array as it is."""
    if e.op == Op.NEG:
        return neg(_unwrap_number(e.args[0]))
    rest = e.args if e.op == Op.MUL else (e,)
    return mul([a for a in rest if a != ONE_ENTRY] or [UNIT]) if ONE_ENTRY in rest else e


def _is_matrix_product(term: M) -> bool:
    """Whether a term is a product of matrices, or has an identity, to which textbooks add no number."""
    inner = term.args[0] if term.sign in (Sign.MINUS, Sign.OVER) else term
    arrays = [x for x in inner.args if x.sign is not Sign.NUMBER] if inner.sign is Sign.BESIDE else []
    return inner.sign is Sign.IDENTITY or len(arrays) > 1


_OF_ONES = M(Sign.BESIDE, (ONES, M(Sign.TRANSPOSE, (ONES,))))
_OPERATIONS = {
    Op.ADD: Writing._write_sum, Op.MUL: Writing._write_product, Op.DIV: Writing._write_quotient,
    Op.MATMUL: Writing._write_matmul, Op.DOT: Writing._write_dot,
    Op.POW: Writing._write_power, Op.TRANSPOSE: Writing._write_transpose, "compare": Writing._write_comparison,
    "index": Writing._write_index,
    "column": lambda self, e, shape: self.formula(e.args[0]), "concat": Writing._write_padded_vector,
}  # fmt: skip


def _lower_half(a: M) -> M:
    diagonal = function_formula("diag", function_formula("diag", a))
    half = multiply_neighbours([number_formula(Fraction(1, 2)), diagonal])
    return M(Sign.SUM, (function_formula("tril", a), M(Sign.MINUS, (half,))))


def _mirrored(a: M) -> M:
    above = transpose_formula(function_formula("tril", a, number_formula(Fraction(-1))))
    return M(Sign.SUM, (function_formula("tril", a), above))


def _square_root(a: M) -> M:
    """Return a root; of the square of a norm, as the sum of the squares of a matrix is, that norm."""
    squared = a.sign is Sign.POWER and a.args[0].sign is Sign.NORM and a.args[1] == number_formula(Fraction(2))
    return a.args[0] if squared else M(Sign.ROOT, (a,))


_CALLS: dict[str, Callable[..., M]] = {
    "inv": lambda a: M(Sign.INVERSE, (a,)), "abs": lambda a: M(Sign.ABSOLUTE, (a,)), "norm": lambda a: M(Sign.NORM, (a,)),
    "cross": lambda a, b: M(Sign.CROSS, (a, b)), "lower_half": _lower_half, "mirrored": _mirrored, "sqrt": _square_root,
}  # fmt: skip
_OPPOSITE = {">": "<=", "<=": ">", "<": ">=", ">=": "<", "==": "!=", "!=": "=="}


# Tensors written with indices: G[i,j] = sum_k A[i,k]*B[k,j].


def entry_of(x: Tensor, axes: Sequence[Index | None], dims: Dims, *taken: str) -> tuple[tuple[str, ...], M]:
    """Return one entry of a tensor as mathematics, after the letters of its indices; an axis of length 1 has none.

    No index has the letter of an input, of a size, or of what else is `taken`.
    """
    sizes = [d for own in dims.values() for d in own]
    own = [i for i in axes if i is not None]
    scope = _Scope({}, tuple(index_letters(frozenset((*taken, *dims, *sizes)))), Writing(Shapes(dims))).holding(own)
    return tuple(scope.names[i] for i in own), _sum_formula(x, scope)


@dataclass(frozen=True)
class _Scope:
    """The letters of the indices that can be used at a place, and those that are free for further ones there."""

    names: Mapping[Index, str]
    letters: tuple[str, ...]
    writing: Writing

    def holding(self, more: Sequence[Index]) -> "_Scope":
        """Return the scope with letters for more indices."""
        names = dict(self.names)
        left = list(self.letters)
        for i in more:
            if i not in names:
                names[i] = left.pop(0) if left else f"z{len(names)}"
        return _Scope(names, tuple(left), self.writing)

    def at(self, names: Mapping[Index, str]) -> "_Scope":
        """Return the scope inside an atom, where other indices have the letters of this place."""
        return replace(self, names=names)


def _sum_formula(x: Tensor, scope: _Scope) -> M:
    terms = [_term_formula(t, scope) for t in x.terms] or [number_formula(Fraction(0))]
    return terms[0] if len(terms) == 1 else M(Sign.SUM, tuple(terms))


def _term_formula(term: IndexedTerm, scope: _Scope) -> M:
    every = [i for i in term.indices if i not in scope.names]
    picks = [f for f in term.factors if f.atom.op == "unit" and f.at[0] in every]
    scope = scope.at({**scope.names, **{f.at[0]: _place_of_unit(f.atom) for f in picks}})
    bound = [i for i in every if i not in scope.names]
    scope = scope.holding(bound)
    shown = [f for f in term.factors if not any(f is p for p in picks)]
    low = [_factor_formula(f._replace(power=-f.power), scope) for f in shown if f.power < 0 and f.atom.op != "exp"]
    top = [_factor_formula(f, scope) for f in shown if f.power > 0 or f.atom.op == "exp"]
    product = multiply_neighbours([number_formula(-term.coef if term.coef < 0 else term.coef), *top])
    product = M(Sign.OVER, (product, multiply_neighbours(low))) if low else product
    total = M(Sign.TOTAL, (product,), letters=tuple(scope.names[i] for i in bound)) if bound else product
    return M(Sign.MINUS, (total,)) if term.coef < 0 else total


def _place_of_unit(atom: Atom) -> str:
    """Return the position of the 1 in a unit vector: `0`, or `n-1` if it counts from the end."""
    if not atom.name.startswith("-"):
        return atom.name
    end = parse_position(atom.dims[0])
    return Position(end.names, end.number + int(atom.name)).text().replace(" ", "")


def _factor_formula(f: IndexedFactor, scope: _Scope) -> M:
    base = _atom_formula(f.atom, tuple(scope.names[i] for i in f.at), scope)
    if f.atom.op == "exp" and f.power == -1 and base.sign is Sign.FUNCTION:
        (inner,) = base.args
        return replace(base, args=(inner.args[0] if inner.sign is Sign.MINUS else M(Sign.MINUS, (inner,)),))
    if f.power == Fraction(1, 2):
        return M(Sign.ROOT, (base,))
    return base if f.power == 1 else M(Sign.POWER, (base, number_formula(f.power)))


def _atom_formula(atom: Atom, own: tuple[str, ...], scope: _Scope) -> M:
    if atom.op == "number":
        return number_formula(Fraction(int(atom.name)))
    if atom.op in ("input", "size", "pi", "inf"):
        return _with_letters(M(Sign.NAME, text=atom.name), own)
    if atom.op == "arange":
        return M(Sign.NAME, text=own[0])
    if atom.op in ("delta", "unit"):
        known = {greek_name(n) for n in scope.writing.shapes.known}
        sign = next((word for word in ("delta", "I", "Id") if greek_name(word) not in known), "Eye")
        return _with_letters(M(Sign.NAME, text=sign), own if atom.op == "delta" else (own[0], _place_of_unit(atom)))
    if atom.op in _PARTS:
        whole = scope.writing.formula(Printer({}).atom(atom, tuple(range(len(atom.dims)))))
        return M(Sign.ENTRY, (whole,), letters=own)
    if atom.op == "tri":
        before = M(Sign.SUM, (M(Sign.NAME, text=own[0]), number_formula(Fraction(atom.name))))
        row = before if atom.name != "0" else before.args[0]
        return M(Sign.TRUTH, (row, M(Sign.NAME, text=own[1])), ">=")
    names = {slot(k, d): own[k] for k, d in enumerate(atom.dims)}
    if atom.op in EXTREMES:
        over = [i for i in atom.args[0].free if i not in names]
        inner = scope.at(names).holding(over)
        letters = tuple(inner.names[i] for i in over)
        return M(Sign.FUNCTION, (_sum_formula(atom.args[0], inner),), atom.op, letters=letters)
    if atom.op == "softmax":
        return _softmax_formula(atom, names, scope)
    inside = [_sum_formula(arg, scope.at(names).holding(arg.free)) for arg in atom.args]
    if atom.op == "group":
        return inside[0]
    if atom.op == DENSITY:
        return density_formula(inside[0])
    if atom.op in SIGNS:
        return M(Sign.TRUTH, tuple(inside), SIGNS[atom.op])
    if is_exp_of_logs(atom) and inside[0].sign is Sign.TOTAL:
        (log,) = inside[0].args
        return M(Sign.TOTAL, log.args, "prod", letters=inside[0].letters)
    return function_formula(scope.writing.word(NAMES.get(atom.op, atom.op)), *inside)


def _with_letters(base: M, at: tuple[str, ...]) -> M:
    return M(Sign.ENTRY, (base,), letters=at) if at else base


def _softmax_formula(atom: Atom, names: Mapping[Index, str], scope: _Scope) -> M:
    """Return an entry of a softmax: softmax_j(Z[i,j]); at a place that has no letter, as a quotient of exponentials."""
    (arg,) = atom.args
    over = [slot(k, atom.dims[k]) for k in atom.axes]
    here = _logits_formula(arg, scope.at(names).holding(arg.free))
    if all(names[i].isalpha() for i in over):
        return M(Sign.FUNCTION, (here,), "softmax", letters=tuple(names[i] for i in over))
    there = scope.at({i: c for i, c in names.items() if i not in over}).holding(over)
    summed = (function_formula("exp", _logits_formula(arg, there)),)
    total = M(Sign.TOTAL, summed, letters=tuple(there.names[i] for i in over))
    return M(Sign.OVER, (function_formula("exp", here), total))


def _logits_formula(x: Tensor, scope: _Scope) -> M:
    """Return what a softmax is of: by cases where an indicator decides between two values, as a mask does."""
    truth = next((f for f in factors_in(x) if is_indicator(f, x.free, points=True)), None)
    branches = [] if truth is None else [substitute_indicator(x, truth, value) for value in (Fraction(1), Fraction(0))]
    if truth is None or not all(b.terms for b in branches):
        return _sum_formula(x, scope)
    shown = _factor_formula(truth, scope)
    sides, sign = (shown.args, shown.text) if shown.sign is Sign.TRUTH else ((shown, number_formula(Fraction(0))), "!=")
    return M(Sign.CASES, (*(_sum_formula(b, scope) for b in branches), *sides), sign)


# The steps of a derivation in every notation: a line of gradcli's language, of Unicode and of LaTeX for each.


class LineWriter:
    """Writes the lines of a derivation; it learns the shape of each name, and what is a differential or an adjoint."""

    def __init__(
        self, dims: Mapping[str, Sequence[str]], symmetric: Iterable[str] = (), turned: Mapping[E, E] | None = None
    ) -> None:
        self.dims = dims
        self.turned = dict(turned or {})  # how transposes of what has a name are written, with what they transpose
        self.notations: tuple[Notation, ...] = (Unicode([*dims]), Latex([*dims]), Mathml([*dims]))
        self.symbols: dict[str, M] = {}
        self.shapes = Shapes(dims)
        self.writing = Writing(self.shapes, self.symbols, symmetric)
        self.definitions: dict[E, E] = {}
        self.densities = False  # whether a line has the density of the normal distribution

    def define(self, word: str, forms: Sequence[tuple[E, E | None]], *, symmetric: bool = False) -> None:
        """Note what a name stands for, in several forms, each with that of its transpose."""
        short = name(word, axes=count_axes(forms[0][0]))
        if symmetric:
            self.writing.symmetric.add(word)
        for e, turned in forms:
            if not e.size:
                continue
            self.definitions.setdefault(e, short)
            if (other := complement_of_sigmoid(e)) is not None:
                self.definitions.setdefault(other, add([UNIT, neg(short)]))
            if turned is not None and turned != transpose(e):
                self.definitions.setdefault(turned, transpose(short))
            if e.is_call("sqrt") and e.args[0].size:
                self.definitions.setdefault(power(e.args[0], Fraction(3, 2)), power(short, Fraction(3)))
                self.definitions.setdefault(e.args[0], power(short, Fraction(2)))

    def in_names(self, e: E) -> E:
        """Return an expression with names for what was defined, the largest parts first."""
        e = with_transposes(e, self.turned)
        for old, new in sorted(self.definitions.items(), key=lambda pair: -pair[0].size):
            e = replace_part(e, old, new)
        return e

    def moved(self, name: str, how: str) -> None:
        """Note that the differential (`d`) or the adjoint (`_bar`) of a name is used from here on, with its shape."""
        sign, mark = (Sign.DIFFERENTIAL, f"d{name}") if how == "d" else (Sign.ADJOINT, f"{name}_bar")
        self.symbols[mark] = M(sign, (M(Sign.NAME, text=name),))
        self.shapes.name_shape(mark, self.shapes.known.get(name, ()))

    def step(
        self,
        rule: str,
        before: str,
        name: str,
        e: E,
        value: Value,
        where: str | None = None,
        condition: str | None = None,
        *,
        row: bool = False,
    ) -> Step:
        """Return a step whose outcome is an expression with a name, and the same as a tensor; a vector may be a `row`."""
        said = f"{name} = {expression_text(e)}"
        self.shapes.name_shape(name, tuple(i.dim for i in value.singles if i is not None))
        written = self._write_statements([(name, e)], row=row) or self._write_entry(name, value, self.notations[0])
        if "φ(" in written[0] and not self.densities:
            self.densities = True
            condition = "; ".join(filter(None, (condition, "φ the normal density")))
        return Step(rule, before, said, where, condition, *written)

    def part(self, rule: str, name: str, e: E, whole: E) -> Step:
        """Return a step that names a part of the derivative; `whole` is the part in terms of the inputs alone."""
        shown = self.in_names(e)
        self.define(name, [(whole, None)])
        return self.program(rule, "", Statements((), shown), name)

    def program(self, rule: str, before: str, made: Statements, name: str) -> Step:
        """Return a step whose outcome is a program, the result of which has a name."""
        lines = [*made.parts, (name, made.result)]
        for n, e in lines:
            self.shapes.add(n, e)
        said = "; ".join(f"{n} = {expression_text(e)}" for n, e in lines)
        return Step(rule, before, said, None, None, *(self._write_statements(lines) or (said, "", "")))

    def said(self, e: E) -> str:
        """Return an expression as it stands in a sentence; in gradcli's language where only indices can write it."""
        try:
            return self.notations[0].write(self.writing.formula(e))
        except NotSupported:
            return expression_text(e)

    def _write_statements(self, lines: Sequence[tuple[str, E]], *, row: bool = False) -> _Written | None:
        """Return statements in every notation; None where only indices can write one."""
        try:
            write = self.writing.row if row else self.writing.formula
            formulas = [(self._formula_of_name(n), write(e)) for n, e in lines]
        except NotSupported:
            return None
        return _write_formulas(formulas, self.notations)

    def entry(self, rule: str, before: str, name: str, value: Value, where: str | None, condition: str | None) -> Step:
        """Return a step whose outcome is written with indices."""
        self.shapes.name_shape(name, tuple("1" if i is None else i.dim for i in value.singles))
        written = self._write_entry(name, value, Plain([*self.dims]))
        return Step(rule, before, written[0], where, condition, *written)

    def _write_entry(self, name: str, value: Value, plain: Notation) -> _Written:
        """Return one entry as a line of text, in LaTeX and in MathML."""
        letters, formula = entry_of(value.tensor, value.singles, self.dims, name)
        left, right = map(self._replace_symbols, (_with_letters(M(Sign.NAME, text=name), letters), formula))
        return _write_formulas([(left, right)], (plain, *self.notations[1:]))

    def _replace_symbols(self, m: M) -> M:
        """Return a formula with the signs of differentials and adjoints for their names."""
        if m.sign is Sign.NAME:
            return self.symbols.get(m.text, m)
        return replace(m, args=tuple(map(self._replace_symbols, m.args)))

    def _formula_of_name(self, name: str) -> M:
        if name.endswith(".T"):
            return transpose_formula(self._formula_of_name(name.removesuffix(".T")))
        letter, bracket, direction = name.partition("[")
        if bracket:
            return M(Sign.AT, (M(Sign.NAME, text=letter),), direction.rstrip("]"))
        return self.symbols.get(name, M(Sign.NAME, text=name))
