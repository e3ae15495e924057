"""The shapes of expressions, as names of sizes, by which a notation knows what is broadcast over what."""

from collections.abc import Mapping, Sequence

from gradcli.derivation.expression import E, Op, places

Shape = tuple[str, ...]
SHAPELESS = "?"  # a length that has no name, as that of a slice
_REDUCING = {"sum", "mean", "var", "std", "prod", "logsumexp", "max", "min"}
_NUMBERS = {"norm", "det", "trace"}


def is_vector(shape: Shape) -> bool:
    """Whether an array is a vector, also as a column or a row of a matrix."""
    return len(shape) == 1 or (len(shape) == 2 and "1" in shape)


class Shapes:
    """The shapes of expressions of names whose shapes are known; other names are sizes, which are numbers."""

    def __init__(self, known: Mapping[str, Sequence[str]]) -> None:
        self.known = {name: tuple(dims) for name, dims in known.items()}
        self._found: dict[E, Shape] = {}

    def add(self, name: str, e: E) -> None:
        """Name an expression."""
        self.known[name] = self.of(e)

    def of(self, e: E) -> Shape:
        """Return the shape of an expression."""
        if e not in self._found:
            self._found[e] = self._of(e)
        return self._found[e]

    def _of(self, e: E) -> Shape:
        if e.op == "name":
            return self.known.get(e.text, ())
        if e.op in ("number", Op.DOT):
            return ()
        args = [self.of(a) for a in e.args]
        if e.op == Op.MATMUL:
            return _product(args)
        if e.op == Op.TRANSPOSE:
            return args[0][::-1]
        if e.op == "column":
            return (*args[0], "1")
        if e.op == "index":
            return _part(e, args[0])
        if e.op == "concat":
            return (SHAPELESS,)
        return self._called(e, args) if e.op == "call" else _broadcast(args)

    def _called(self, e: E, args: list[Shape]) -> Shape:
        name = e.text.rpartition(".")[2]
        options = dict(e.options)
        if name in _REDUCING and len(args) == 1:
            axis = options.get("axis")
            return () if axis is None else tuple(d for k, d in enumerate(args[0]) if k != int(axis) % len(args[0]))
        if name in _NUMBERS:
            return ()
        if name in ("eye", "ones", "zeros", "arange"):
            dims = tuple(a.text if a.op == "name" else str(a.number) for a in e.args)
            return dims * 2 if name == "eye" else dims
        if name == "outer":
            return (_length(args[0]), _length(args[1]))
        if name == "diag":
            return args[0] * 2 if len(args[0]) == 1 else args[0][:1]
        if name in ("solve", "correlate"):
            return args[1] if name == "solve" else (SHAPELESS,)
        if name == "eigvalsh":
            return args[0][:1]
        if name in ("svdvals", "convolve"):
            return (SHAPELESS,)
        if name in ("left_vectors", "right_vectors"):
            return (args[0][0 if name == "left_vectors" else 1], SHAPELESS)
        if name == "pinv":
            return args[0][::-1]
        if name == "einsum":
            inside, _, output = options["first"].strip('"').partition("->")
            letters = {
                c: d
                for own, shape in zip(inside.split(","), args, strict=True)
                for c, d in zip(own, shape, strict=False)
            }
            return tuple(letters.get(c, SHAPELESS) for c in output)
        return _broadcast(args)


def _length(shape: Shape) -> str:
    """Return the length of a vector, also of a column or a row."""
    return next((d for d in shape if d != "1"), "1")


def _product(shapes: list[Shape]) -> Shape:
    left, *rest = shapes
    for right in rest:
        left = (*left[:-1], *right[1:])
    return left


def _part(e: E, shape: Shape) -> Shape:
    parts = [p.strip() for p in e.text[1:-1].split(",")] if "[" not in e.text[1:] else []
    if not parts:
        return (SHAPELESS,) * max(0, len(shape) - places(e))
    kept = [
        (d, p)
        for d, p in zip(shape, [*parts, *":" * (len(shape) - len(parts))], strict=False)
        if not p.strip("- ").isdigit()
    ]
    return tuple(d if p == ":" else SHAPELESS for d, p in kept)


def _broadcast(shapes: list[Shape]) -> Shape:
    """Return the shape of several arrays broadcast together."""
    axes = max(map(len, shapes), default=0)
    found = []
    for k in range(axes):
        lengths = [s[len(s) - axes + k] for s in shapes if len(s) >= axes - k]
        found.append(next((d for d in lengths if d not in ("1", SHAPELESS)), lengths[0]))
    return tuple(found)
