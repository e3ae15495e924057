"""Formulas as mathematics: what numpy broadcasts is written with vectors of ones, diagonal matrices and outer products.

An expression of arrays (`expression.E`) becomes a tree of signs that textbooks have, which every notation writes. A vector is
a column; a product of neighbours is the matrix product, and the elementwise product has a sign of its own.
"""

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

from gradcli.derivation.exponentials import DENSITY
from gradcli.derivation.expression import E, Op
from gradcli.derivation.signs import (
    IDENTITY,
    ONE,
    ONES,
    ZERO,
    M,
    Sign,
    beside,
    by_degree,
    constant_of,
    density_at,
    entrywise,
    function,
    number_place,
    transposed,
)  # fmt: skip
from gradcli.derivation.sized import SHAPELESS, Shape, Shapes, is_vector
from gradcli.derivation.whole import OPAQUE
from gradcli.errors import NotSupported

_ALONG = {"0": "columns", "1": "rows"}
_INDEXED = {"einsum", "cumsum", "tril", "triu"}  # functions of numpy without a sign of their own
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
            return constant_of(e.number)
        if e.op == Op.NEG:
            inner = self.formula(e.args[0])
            return inner.args[0] if inner.sign is Sign.MINUS else M(Sign.MINUS, (inner,))
        shape = self.shapes.of(e)
        if len(shape) > 2:
            raise NotSupported("an array of more than two axes is written with indices")
        written = _OPERATIONS.get(e.op)
        return self._call(e, shape) if written is None else written(self, e, shape)

    # --- sums and products -------------------------------------------------------------------------------------------

    def _sum(self, e: E, shape: Shape) -> M:
        terms = [self._term(a, shape) for a in e.args]
        if len(shape) == 2 and not is_vector(shape) and any(map(_is_product, terms)):  # no number is added to these
            terms = [beside([t, _OF_ONES]) if _is_number(t) else t for t in terms]
        return M(Sign.SUM, tuple(by_degree(terms)))

    def _term(self, a: E, shape: Shape) -> M:
        """Return a term of a sum in the shape of the sum: what is broadcast has ones beside it."""
        if a.op == Op.NEG:
            return M(Sign.MINUS, (self._term(a.args[0], shape),))
        return self.formula(a) if a.op == "number" else self._spread(a, shape)

    def _spread(self, e: E, shape: Shape) -> M:
        """Return a number, a row or a column as an array of a shape, with vectors of ones."""
        own = self.shapes.of(e)
        if len(own) == len(shape) and is_vector(own) == is_vector(shape):
            return self.formula(e)
        if not own:
            return beside([self.formula(e), *([ONES] if is_vector(shape) else [ONES, transposed(ONES)])])
        return beside([self.formula(e), transposed(ONES)] if own[-1] == "1" else [ONES, self.row(e)])

    def _operand(self, e: E, shape: Shape) -> M:
        """Return an operand of a function by entries: arrays in the shape of the result, numbers as they are."""
        return self._spread(e, shape) if self.shapes.of(e) else self.formula(e)

    def row(self, e: E) -> M:
        """Return the transpose of a vector; of a product, of its factors."""
        if e.op == Op.NEG:
            return beside([M(Sign.MINUS, (ONE,)), self.row(e.args[0])])
        if e.op == Op.DIV and not self.shapes.of(e.args[1]):
            return M(Sign.OVER, (self.row(e.args[0]), self.formula(e.args[1])))
        numbers = [a for a in e.args if not self.shapes.of(a)] if e.op == Op.MUL else []
        if numbers and len(numbers) == len(e.args) - 1:
            (array,) = (a for a in e.args if a not in numbers)
            return beside([*sorted(map(self.formula, numbers), key=number_place), self.row(array)])
        x = self.formula(e)
        factors = 2 if e.op == "call" and e.text == "sum" and e.options else len(e.args) if e.op == Op.MATMUL else 0
        if x.sign is Sign.BESIDE and len(x.args) == factors:  # no number is among them, which has no transpose
            return beside([self._turned(p) for p in reversed(x.args)])
        return self._turned(x)

    def _turned(self, x: M) -> M:
        """Return a transpose; a symmetric matrix and its inverse are their own."""
        inner = x.args[0] if x.sign is Sign.INVERSE else x
        return x if inner.sign is Sign.NAME and inner.text in self.symmetric else transposed(x)

    def _product(self, e: E, shape: Shape) -> M:
        """Return a product in the shape that it has: rows and columns that are broadcast over a matrix are diagonal ones."""
        numbers: list[M] = []
        matrices: list[M] = []
        rows: list[M] = []
        columns: list[M] = []
        for a in e.args:
            own = self.shapes.of(a)
            if not own:
                kind = numbers
            elif len(own) == 1 or own[0] == "1":
                kind = rows
            else:
                kind = columns if own[-1] == "1" else matrices
            kind.append(self.formula(a))
        numbers.sort(key=number_place)
        dots = [x for x in numbers if x.sign is Sign.BESIDE and x.args[0].sign is Sign.TRANSPOSE] if shape else []
        if is_vector(shape) or not shape:
            return beside([*numbers, *([entrywise([*rows, *columns])] if shape else [])], brackets=dots)
        matrices = [x for x in matrices if x != _OF_ONES]
        if not matrices:
            left, right = (entrywise(x) if x else ONES for x in (columns, rows))
            return beside([*numbers, left, transposed(right)])
        before, after = ([function("diag", entrywise(x))] if x else [] for x in (columns, rows))
        return beside([*numbers, *before, entrywise(matrices), *after])

    def _quotient(self, e: E, shape: Shape) -> M:
        top, low = e.args
        above, below = self.shapes.of(top), self.shapes.of(low)
        if not below or above == below or is_vector(shape):
            return M(Sign.OVER, (self.formula(top), self.formula(low)))
        if not is_vector(below):
            return M(Sign.OVER, (self._term(top, shape), self.formula(low)))
        inverse = M(Sign.OVER, (ONE, self.formula(low)))
        if is_vector(above) or not above:
            row = below[-1] != "1"
            parts = [self.formula(top), ONES] if not above else [self.formula(top)]
            return beside([*parts, transposed(inverse)] if row else [inverse, transposed(beside(parts))])
        diagonal = function("diag", inverse)
        return beside([diagonal, self.formula(top)] if below[-1] == "1" else [self.formula(top), diagonal])

    def _matmul(self, e: E, shape: Shape) -> M:
        parts = [self.formula(a) for a in e.args]
        ranks = [len(self.shapes.of(a)) for a in e.args]
        if ranks[0] == 1 and shape:
            return beside(
                [self._turned(p) if r == 2 else p for p, r in zip(reversed(parts), reversed(ranks), strict=True)]
            )
        return beside([transposed(parts[0]), *parts[1:]] if ranks[0] == 1 else parts)

    def _dot(self, e: E, shape: Shape) -> M:
        a, b = map(self.formula, e.args)
        if a == b:
            return M(Sign.POWER, (M(Sign.NORM, (a,)), constant_of(Fraction(2))))
        return beside([self.row(e.args[0]), b])

    # --- powers, parts, comparisons ----------------------------------------------------------------------------------

    def _power(self, e: E, shape: Shape) -> M:
        base, p = (self._operand(a, shape) for a in e.args)
        squared_norm = base.sign is Sign.POWER and base.args[0].sign is Sign.NORM
        if squared_norm and p.sign is Sign.NUMBER:
            base, p = base.args[0], constant_of(base.args[1].number * p.number)
        return M(Sign.ENTRY_POWER if len(shape) == 2 and not is_vector(shape) else Sign.POWER, (base, p))

    def _transpose(self, e: E, shape: Shape) -> M:
        inner = self.formula(e.args[0])
        return inner if e.args[0].op == "column" else self._turned(inner)

    def _comparison(self, e: E, shape: Shape) -> M:
        place, along = e.args
        inner = along.args[0] if along.op == "column" else along
        if inner.op == "call" and inner.text == "arange":
            if len(shape) == 1:
                return M(Sign.UNIT, (self.formula(place),))
            found = function("onehot", self.formula(place))
            return found if inner is along else transposed(found)
        return M(Sign.TRUTH, tuple(self._operand(a, shape) for a in e.args), e.text)

    def _part(self, e: E, shape: Shape) -> M:
        inner = e.args[0]
        if inner.op == "call" and inner.text == "eye" and "," not in e.text and len(shape) == 1:
            return M(Sign.UNIT, text=e.text[1:-1])
        parts = [p.strip() for p in e.text[1:-1].split(",")]
        lengths = self.shapes.of(inner)[: len(parts)]
        if inner.op == "name" and all(
            p == ":" or (p == "0" and d == "1") for p, d in zip(parts, lengths, strict=False)
        ):
            return self.formula(inner)  # without its axis of length 1
        return M(Sign.AT, (self.formula(inner),), e.text[1:-1])

    def _column(self, e: E, shape: Shape) -> M:
        return self.formula(e.args[0])

    def _joined(self, e: E, shape: Shape) -> M:
        return M(Sign.JOINED, (self.formula(e.args[0]),), "|".join(x.strip("[]") for x in e.text.split("|")))

    def word(self, name: str) -> str:
        """Return the usual sign of a function, unless an input has that name: Φ and φ of the normal distribution."""
        sign, word = _SIGNS.get(name, (name, name))
        return name if {sign, word} & set(self.shapes.known) else sign

    # --- functions ---------------------------------------------------------------------------------------------------

    def _call(self, e: E, shape: Shape) -> M:
        name = self.word(e.text.rpartition(".")[2])
        if name in ("ones", "ones_like", "zeros", "zeros_like"):
            return ZERO if name.startswith("zeros") else ONES if len(shape) == 1 else _OF_ONES
        if name == "eye":
            return IDENTITY
        if name in _INDEXED:
            raise NotSupported(f"{name} is written with indices")
        args = [self.formula(a) for a in e.args]
        if name == DENSITY:
            return density_at(args[0])
        axis = dict(e.options).get("axis")
        if axis is not None and len(self.shapes.of(e.args[0])) == 2 and name in ("sum", "mean"):
            return self._along(name, args[0], self.shapes.of(e.args[0]), axis)
        if name == "sum" and axis is None and (factors := self._trace_of(e.args[0])):
            return function("tr", beside([self.row(factors[0]), self.formula(factors[1])]))
        squares = args[0].sign is Sign.ENTRY_POWER and args[0].args[1] == constant_of(Fraction(2))
        if name == "sum" and axis is None and squares:
            return M(Sign.POWER, (M(Sign.NORM, args[0].args[:1]), args[0].args[1]))
        if name == "outer":
            return beside([args[0], self.row(e.args[1])])
        made = _CALLS.get(name)
        if made is not None:
            return made(*args)
        if len(args) > 1 and name not in OPAQUE:
            args = [self._operand(a, shape) for a in e.args]
        along = _ALONG[axis] if axis in _ALONG and len(self.shapes.of(e.args[0])) == 2 else ""
        return function(name, *args, along=along)

    def _trace_of(self, e: E) -> tuple[E, ...]:
        """Return the two matrices of sum(A * B), which is tr(A.T @ B), if one is a product, an inverse or a differential."""
        matrices = e.op == Op.MUL and len(e.args) == 2 and all(self._is_matrix(a) for a in e.args)
        return e.args if matrices and any(self._is_product(a) for a in e.args) else ()

    def _is_matrix(self, e: E) -> bool:
        shape = self.shapes.of(e)
        return len(shape) == 2 and not is_vector(shape)

    def _is_product(self, e: E) -> bool:
        inner = e.args[0] if e.op == Op.TRANSPOSE else e
        moved = inner.op == "name" and inner.text in self.symbols
        return moved or inner.op == Op.MATMUL or (inner.op == "call" and inner.text == "inv")

    def _along(self, name: str, x: M, shape: Shape, axis: str) -> M:
        """Return the sum or the mean of the rows or of the columns of a matrix, as a product with ones."""
        total = beside([x if axis == "1" else transposed(x), ONES])
        if name == "sum":
            return total
        size = shape[int(axis)]
        if size == SHAPELESS:
            return function(name, x, along=_ALONG[axis])
        return M(
            Sign.OVER,
            (total, M(Sign.NUMBER, number=Fraction(int(size))) if size.isdecimal() else M(Sign.NAME, text=size)),
        )


def _is_number(term: M) -> bool:
    inner = term.args[0] if term.sign is Sign.MINUS else term
    return inner.sign is Sign.NUMBER


def _is_product(term: M) -> bool:
    """Whether a term is a product of matrices, or has an identity, to which textbooks add no number."""
    inner = term.args[0] if term.sign in (Sign.MINUS, Sign.OVER) else term
    arrays = [x for x in inner.args if x.sign is not Sign.NUMBER] if inner.sign is Sign.BESIDE else []
    return inner.sign is Sign.IDENTITY or len(arrays) > 1


_OF_ONES = M(Sign.BESIDE, (ONES, M(Sign.TRANSPOSE, (ONES,))))
_OPERATIONS = {
    Op.ADD: Writing._sum, Op.MUL: Writing._product, Op.DIV: Writing._quotient, Op.MATMUL: Writing._matmul, Op.DOT: Writing._dot,
    Op.POW: Writing._power, Op.TRANSPOSE: Writing._transpose, "compare": Writing._comparison, "index": Writing._part,
    "column": Writing._column, "concat": Writing._joined,
}  # fmt: skip
_CALLS: dict[str, Callable[..., M]] = {
    "inv": lambda a: M(Sign.INVERSE, (a,)),
    "abs": lambda a: M(Sign.ABSOLUTE, (a,)),
    "norm": lambda a: M(Sign.NORM, (a,)),
    "cross": lambda a, b: M(Sign.CROSS, (a, b)),
    "lower_half": lambda a: M(
        Sign.SUM,
        (
            function("tril", a),
            M(Sign.MINUS, (beside([constant_of(Fraction(1, 2)), function("diag", function("diag", a))]),)),
        ),
    ),
    "mirrored": lambda a: M(
        Sign.SUM, (function("tril", a), transposed(function("tril", a, constant_of(Fraction(-1)))))
    ),
    "sqrt": lambda a: _norm_of(a) or M(Sign.ROOT, (a,)),
}


def _norm_of(square: M) -> M | None:
    """Return the norm of which this is the square, as the sum of the squares of a matrix is; None for anything else."""
    if square.sign is Sign.POWER and square.args[0].sign is Sign.NORM and square.args[1] == constant_of(Fraction(2)):
        return square.args[0]
    return None
