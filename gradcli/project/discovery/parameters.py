"""What a function says of its arguments: kinds and sizes, by annotations, its docstring, what it asserts, and what it does."""

import ast
import itertools
import keyword
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from gradcli.classes import dataclass
from gradcli.project.discovery.bodies import SourceFunction, last_name, own_nodes
from gradcli.project.discovery.project import Parameter, ParameterKind

_SCALARS: dict[str, ParameterKind] = {
    "int": "integer", "float": "number", "bool": "flag", "str": "text", "dict": "table", "Dict": "table",
    "Mapping": "table", "Callable": "function", "callable": "function", "function": "function", "floating": "number",
}  # fmt: skip
_ARRAYS = frozenset({"ndarray", "Tensor", "Array", "ArrayLike", "NDArray", "array", "array_like", "list", "List", "Sequence",
                     "FloatTensor", "DoubleTensor", "tensor", "matrix", "vector"})  # fmt: skip
_INTEGER_ARRAYS = frozenset({"LongTensor", "IntTensor"})
_OF_INTEGERS = re.compile(r"\b(int(s|eger|egers|\d+|p)?|long|indices)\b")
_DEFINITE = re.compile(r"positive[- ](semi-?)?definite|\bspd\b|\bcovariance\b", re.IGNORECASE)
_SYMBOLIC = re.compile(r"(U?Int|Integer|Float|Num|Real|Inexact|Shaped|Complex|BFloat)\d*")  # of jaxtyping
_WORDS = r"(?:[\s:,=]|array[_-]like|array|ndarray|np\.|numpy\.|torch\.|tensor|matrix|vector|of|shape|int\w*|float\w*|with|an?\b)"
_DIMENSION = re.compile(r"[A-Za-z_]\w{0,9}(\s*[+*]\s*\d+)?|\d+(\s*\*\s*[A-Za-z_]\w{0,9})?")
_SQUARE = frozenset({"inv", "det", "slogdet", "eigvals", "eig", "eigh", "eigvalsh", "matrix_power", "expm", "logm"})
_SEEDED = frozenset({"default_rng", "RandomState", "manual_seed", "seed", "PRNGKey", "range"})
_PRODUCTS = frozenset({"mm", "matmul", "dot", "bmm", "addmm", "linear", "conv1d", "conv2d", "einsum", "tensordot"})
_WEIGHT = re.compile(r"(weights?|gamma)$")
_BIAS = re.compile(r"(bias(es)?|beta)$")
_CHOOSING = frozenset({"gather", "index_select", "one_hot", "take_along_axis", "index_add", "index_add_", "scatter"})
_ROUNDING = frozenset({"round", "round_", "rint", "around", "floor", "ceil", "trunc", "fix"})
_REMAINDERS = frozenset({"mod", "remainder", "fmod"})
_FROM_UNPACKED = 3  # axes of an array that has its sizes from its use; those of images depend on others


@dataclass(slots=True)
class _Said:
    """What is known of one argument so far; what is said first is kept."""

    kind: ParameterKind = ""
    sizes: tuple[str, ...] | None = None
    values: tuple[str, ...] = ()

    def note(self, kind: ParameterKind = "", sizes: tuple[str, ...] | None = None) -> None:
        self.kind = self.kind or kind
        self.sizes = sizes if self.sizes is None else self.sizes


def describe_parameters(definition: SourceFunction, without_first: bool = False) -> tuple[Parameter, ...]:
    """Return the parameters of a function that a point can have a value for, with their defaults as they are written.

    Those that are given by name alone come last. `without_first` leaves out the first, such as `ctx` of torch.
    """
    args = definition.node.args
    plain = definition.parameters
    defaults = [*([None] * (len(plain) - len(args.defaults))), *args.defaults][-len(plain) :] if plain else []
    given = [*zip(plain, defaults, strict=True), *zip(args.kwonlyargs, args.kw_defaults, strict=True)][without_first:]
    said = {argument.arg: _Said() for argument, _ in given}
    nodes = tuple(own_nodes(definition.node))
    _read_checks(nodes, said)
    for argument, _ in given:
        if argument.annotation is not None:
            _read_annotation(argument.annotation, said[argument.arg])
    if isinstance(definition.node, ast.FunctionDef):
        _read_docstring(ast.get_docstring(definition.node) or "", said)
    _read_use(nodes, said)
    renamed = dict(_asserted_equalities(nodes))
    return tuple(
        Parameter(
            argument.arg, "" if default is None else ast.unparse(default), (s := said[argument.arg]).kind,
            None if s.sizes is None else tuple(renamed.get(size, size) for size in s.sizes), s.values,
        )
        for argument, default in given
    )  # fmt: skip


def parameter_of_annotation(name: str, annotation: ast.expr) -> Parameter:
    """Return a parameter by what its annotation says alone, such as a field of a dataclass."""
    said = _Said()
    _read_annotation(annotation, said)
    return Parameter(name, "", said.kind, said.sizes, said.values)


def _read_annotation(annotation: ast.expr, said: _Said) -> None:
    """Take what an annotation says: `int`, `np.ndarray | None`, `Float[Array, "n d"]`, `Literal["mean", "sum"]`."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return
    if isinstance(annotation, ast.BinOp):  # X | None
        for side in (annotation.left, annotation.right):
            _read_annotation(side, said)
        return
    inner = annotation.slice if isinstance(annotation, ast.Subscript) else None
    name = last_name(annotation.value if isinstance(annotation, ast.Subscript) else annotation)
    parts = inner.elts if isinstance(inner, ast.Tuple) else [] if inner is None else [inner]
    texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    if name in ("Optional", "Union"):
        for part in parts:
            _read_annotation(part, said)
    elif name == "Literal" and texts:
        said.note("text")
        said.values = said.values or tuple(texts)
    elif texts and _SYMBOLIC.fullmatch(name):
        sizes = tuple(texts[-1].split())
        known = all(map(_is_axis_size, sizes))
        said.note("integers" if "Int" in name and sizes else "array" if sizes else "number", sizes if known else None)
    elif name in _ARRAYS | _INTEGER_ARRAYS:
        whole = name in _INTEGER_ARRAYS or any(_OF_INTEGERS.search(ast.unparse(part)) for part in parts)
        said.note("integers" if whole else "array")
    elif name in _SCALARS:
        said.note(_SCALARS[name])


def _is_axis_size(text: str) -> bool:
    """Whether a text is the size of an axis: `n`, `16`, `n+1`, `2*n`; some words, as in `x (in, out)`, are none in Python."""
    return _DIMENSION.fullmatch(text) is not None and not any(map(keyword.iskeyword, re.findall(r"\w+", text)))


def _read_docstring(text: str, said: dict[str, _Said]) -> None:
    """Take what a docstring says: `x (n, 16), labels (n,) of ints`, `w : ndarray of shape (d,)`, `k : int`."""
    for name, each in said.items():
        word = rf"(?<![\w.]){re.escape(name)}\b`*"
        found = re.search(rf"{word}(?P<between>{_WORDS}*)\((?P<sizes>[^()\n]*)\)(?P<after>[^\n,;.(]*)", text)
        if found is not None:
            several = [size.strip() for size in found["sizes"].split(",") if size.strip() not in ("", "...")]
            short = "," in found["sizes"] or "shape" in found["between"]
            if several and short and all(map(_is_axis_size, several)):
                whole = _OF_INTEGERS.search(f"{found['between']} {found['after']}")
                each.note("integers" if whole else "", tuple("".join(size.split()) for size in several))
        typed = re.search(rf"^\s*{word}\s*:\s*(?P<type>[^\n]+)", text, re.MULTILINE)
        if typed is not None:
            first = re.split(r"[\s,]", typed["type"])[0]
            several_of_them = re.search(r"\barray|\blist|\btensor|\bsequence|\bof shape", typed["type"])
            options = re.match(r"\{((?:'\w+'|\"\w+\")(?:,\s*(?:'\w+'|\"\w+\"))*)\}", typed["type"])
            if options is not None:
                each.note("text")
                each.values = each.values or tuple(re.findall(r"\w+", options[1]))
            elif first in _SCALARS and not several_of_them:
                each.note(_SCALARS[first])
            elif several_of_them and _OF_INTEGERS.search(typed["type"]):
                each.note("integers")
        beside = re.search(rf"[^\n]*{word}[^\n]*", text)
        if beside is not None and _DEFINITE.search(beside[0]):
            each.note("definite", ("n", "n"))


def _read_checks(nodes: Sequence[ast.AST], said: dict[str, _Said]) -> None:
    """Take what is asserted, or raises an error: `assert x.shape == (n, 16)`, `isinstance(k, int)`, `y.dtype == torch.long`."""
    for node in nodes:
        if isinstance(node, ast.Assert):
            test = node.test
        elif isinstance(node, ast.If) and len(node.body) == 1 and isinstance(node.body[0], ast.Raise):
            test = node.test.operand if isinstance(node.test, ast.UnaryOp) else node.test
        else:
            continue
        for part in test.values if isinstance(test, ast.BoolOp) else [test]:
            _read_check(part, said)


def _read_check(test: ast.expr, said: dict[str, _Said]) -> None:
    if isinstance(test, ast.Call) and last_name(test) == "isinstance" and len(test.args) == 2:
        if last_name(test.args[0]) in said:
            _read_annotation(test.args[1], said[last_name(test.args[0])])
        return
    if not isinstance(test, ast.Compare) or len(test.comparators) != 1:
        return
    left, right = test.left, test.comparators[0]
    if isinstance(left, ast.Call) and last_name(left) == "type" and left.args and isinstance(left.args[0], ast.Name):
        if left.args[0].id in said:
            _read_annotation(right, said[left.args[0].id])
        return
    axis = left.slice if isinstance(left, ast.Subscript) else None
    attribute = left.value if isinstance(left, ast.Subscript) else left
    if not isinstance(attribute, ast.Attribute):
        return
    text = ast.unparse(attribute)
    each = next((s for name, s in said.items() if re.match(rf"(\w+\.)*(asarray\()?{re.escape(name)}\)?\.", text)), None)
    if each is None:
        return
    if ".dtype" in text and _OF_INTEGERS.search(re.sub("['\"]i['\"]", "int", ast.unparse(right))):
        each.note("integers")
    elif attribute.attr == "shape" and axis is None and isinstance(right, ast.Tuple):
        sizes = tuple("".join(ast.unparse(size).split()) for size in right.elts)
        each.note("", sizes if all(map(_is_axis_size, sizes)) else None)
    elif attribute.attr == "shape" and isinstance(axis, ast.Constant) and isinstance(right, ast.Constant):
        before = [f"axis_{k}" for k in range(int(axis.value))] if isinstance(axis.value, int) else []
        each.note("", (*before, str(right.value)))


def _read_use(nodes: Sequence[ast.AST], said: dict[str, _Said]) -> None:
    """Take what the body does with the arguments, the clearest first."""
    assigned = ((target, node.value) for node in nodes if isinstance(node, ast.Assign) for target in node.targets)
    kept = {target.id: value for target, value in assigned if isinstance(target, ast.Name)}
    for node in nodes:
        if isinstance(node, ast.Assign):
            _read_assignment(node, said)
        elif isinstance(node, ast.Call):
            _read_call(node, said, kept)
        elif isinstance(node, ast.Subscript):
            _read_subscript(node, said)
        elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id in said:
            texts = [n.value for n in ast.walk(node.comparators[0]) if isinstance(n, ast.Constant)]
            if texts and all(isinstance(value, str) for value in texts):
                said[node.left.id].note("text")
                said[node.left.id].values += tuple(map(str, texts))
    _read_weights(nodes, said)
    for name in _periods(nodes, kept) & said.keys():
        said[name].note("period")
    for node in nodes:  # an array has no truth, so that what is tested alone is a flag
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            test = node.test.operand if isinstance(node.test, ast.UnaryOp) else node.test
            if isinstance(test, ast.Name) and test.id in said:
                said[test.id].note("flag")


def _periods(nodes: Sequence[ast.AST], kept: dict[str, ast.expr]) -> set[str]:
    """Return the names by which others are reduced: `d -= box * round(d / box)`, `d % box`, `where(d > box / 2, d - box, d)`."""

    def parts(node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes of an expression, and those of the values of its names."""
        for inner in ast.walk(node):
            yield inner
            if isinstance(inner, ast.Name) and inner.id in kept:
                yield from ast.walk(kept[inner.id])

    found: set[str] = set()
    halved: set[str] = set()
    subtracted: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Compare):
            parts_of_names = (side for side in node.comparators if isinstance(side, ast.BinOp))  # such as box / 2
            halved |= {n.id for side in parts_of_names for n in ast.walk(side) if isinstance(n, ast.Name)}
        elif isinstance(node, ast.Call) and last_name(node) in _REMAINDERS and len(node.args) == 2:
            found.add(last_name(node.args[1]))
        elif isinstance(node, ast.BinOp | ast.AugAssign):
            right = node.right if isinstance(node, ast.BinOp) else node.value
            left = node.left if isinstance(node, ast.BinOp) else node.target
            if isinstance(node.op, ast.Mod) and not (isinstance(left, ast.Constant) and isinstance(left.value, str)):
                found.add(last_name(right))
            elif isinstance(node.op, ast.Sub):
                subtracted.add(last_name(right))
                calls = (n for n in parts(right) if isinstance(n, ast.Call) and last_name(n) in _ROUNDING)
                ratios = (n for call in calls for n in parts(call) if isinstance(n, ast.BinOp))
                found |= {last_name(ratio.right) for ratio in ratios if isinstance(ratio.op, ast.Div)}
    return found | (halved & subtracted)


def _read_weights(nodes: Sequence[ast.AST], said: dict[str, _Said]) -> None:
    """Take `xhat * weight + bias`: a weight that multiplies, and is in no product of matrices, has one entry a channel."""

    def names(node: ast.AST) -> set[str]:
        return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)} & said.keys()

    multiplies: set[str] = set()
    in_products: set[str] = set()
    for node in nodes:
        product = isinstance(node, ast.Call) and last_name(node) in _PRODUCTS
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            multiplies |= names(node)
        elif product or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)):
            in_products |= names(node)
    if any(_WEIGHT.match(name) for name in multiplies - in_products):
        for name in said:
            if _BIAS.match(name) or (_WEIGHT.match(name) and name not in in_products):
                said[name].note("array", ("d",))


def _read_assignment(node: ast.Assign, said: dict[str, _Said]) -> None:
    """Take `n, d = x.shape`, and `a, b, c = p`."""
    target = node.targets[0]
    if not isinstance(target, ast.Tuple) or not all(isinstance(each, ast.Name) for each in target.elts):
        return
    names = tuple(each.id for each in target.elts if isinstance(each, ast.Name))
    value = node.value
    if isinstance(value, ast.Name) and value.id in said:
        said[value.id].note("array", (str(len(names)),))
        return
    array = value.value if isinstance(value, ast.Attribute) and value.attr == "shape" else None
    if isinstance(array, ast.Name) and array.id in said and len(names) <= _FROM_UNPACKED:
        said[array.id].note("", names)


def _read_call(node: ast.Call, said: dict[str, _Said], kept: dict[str, ast.expr]) -> None:
    called = last_name(node)
    if isinstance(node.func, ast.Name) and node.func.id in said:
        said[node.func.id].note("function")
    first = said.get(node.args[0].id) if node.args and isinstance(node.args[0], ast.Name) else None
    if called == "einsum" and node.args and isinstance(node.args[0], ast.Constant):
        operands = str(node.args[0].value).partition("->")[0].split(",")
        for axes, operand in zip(operands, node.args[1:], strict=False):
            _read_operand(tuple(axes.strip()), operand, said, kept)
    elif first is not None and called == "cholesky":
        first.note("definite", ("n", "n"))
    elif first is not None and called in _SQUARE:
        first.note("", ("n", "n"))
    elif first is not None and called in _SEEDED:
        first.note("integer")
    if called in _CHOOSING:
        named = {n.id for argument in node.args for n in ast.walk(argument) if isinstance(n, ast.Name)}
        for name in named & said.keys():
            if not (node.args and last_name(node.args[0]) == name and called == "take_along_axis"):
                said[name].note("integers")


def _read_operand(axes: tuple[str, ...], operand: ast.expr, said: dict[str, _Said], kept: dict[str, ast.expr]) -> None:
    """Take the axes of an operand of einsum: of an argument, or of rows that are chosen from one, `v = table[ids]`."""
    if len(axes) > _FROM_UNPACKED or not all(map(str.isalpha, axes)) or not isinstance(operand, ast.Name):
        return
    if operand.id in said:
        said[operand.id].note("", axes)
        return
    chosen = kept.get(operand.id)
    if isinstance(chosen, ast.Subscript) and isinstance(chosen.value, ast.Name) and isinstance(chosen.slice, ast.Name):
        table, rows = said.get(chosen.value.id), said.get(chosen.slice.id)
        if table is not None and rows is not None:
            table.sizes, rows.kind, rows.sizes = (f"rows_of_{chosen.value.id}", axes[-1]), "integers", axes[:-1]


def _read_subscript(node: ast.Subscript, said: dict[str, _Said]) -> None:
    """Take `table[ids]` and `z[rows, labels]`, whose indices are integers, and `params["W"]`."""
    held = said.get(node.value.id) if isinstance(node.value, ast.Name) else None
    if held is not None and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        held.note("table")
        held.values = tuple(dict.fromkeys((*held.values, node.slice.value)))
    elif held is not None and isinstance(node.slice, ast.Slice | ast.Constant):
        held.note("array")
    places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for place in places:
        index = said.get(place.id) if isinstance(place, ast.Name) else None
        if index is not None and index is not held and "mask" not in ast.unparse(place):
            index.note("integers")
            if held is not None and len(places) == 1:
                held.note("array", (f"rows_of_{ast.unparse(node.value)}", "d"))


def _asserted_equalities(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, str]]:
    """Yield the names of sizes that are asserted to be equal to others, with those."""
    for node in nodes:
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare) and len(node.test.comparators) == 1:
            left, right = node.test.left, node.test.comparators[0]
            if isinstance(left, ast.Name) and isinstance(right, ast.Name) and isinstance(node.test.ops[0], ast.Eq):
                yield left.id, right.id


# Points that a check may run at, as `--at` writes them: by what a function says of its arguments, else by their names.

CLASSES = 4  # entries of what a layer of unknown size returns
SIZES = (3, 4, 2, 6)  # of a vector of unknown size, one after the other
_ROWS = 5  # of a matrix; more than columns
_OTHERS = (4, 2, 6, 7)  # sizes of axes that are neither the first nor the last of a matrix
_LARGEST = 100_000  # entries of an array whose sizes are written
_MOST_UNKNOWN = 3  # arguments whose shapes are tried together
_PREDICTIONS = re.compile(r".*(pred|hat|prob)|outputs?$|p$", re.IGNORECASE)  # which may have to be probabilities
_MATRICES = re.compile(r"(exog\w*|design\w*|features|covariates|table|emb\w*|codebook)$")
_LABELS = re.compile(r"(t|y|endog|response|y_?true|targets?|labels?|idx|ids|index|indices|classes)$")
_WEIGHTS = re.compile(r"([WUVK]\w*|w\d*|weights?|kernel|theta)$")
_BIASES = re.compile(r"(b\w{0,2}\d*|bias(es)?)$")
_SCALES = re.compile(r"(gamma|beta|scale|shift|mean|var|mu|sigma)$")
_STATES = re.compile(r"(h|c|s|\w*prev\w*|hidden|state_\w+)$")
_TABLES = re.compile(r"(state|cache|params?|parameters|config|\w+_params?|options)$")
RATES = re.compile(
    r"(p|eps\w*|epsilon|lr|learning_rate|eta|alpha|delta|lam\w*|reg\w*|rate|ratio|keep\w*|momentum|tau)$"
)
_NUMBERS = re.compile(
    rf"(k|n|power|nu|dof|df|h|dt|dx|omega|temperature|temp|ridge|l[12]\w*|weight_decay|penalty|{RATES.pattern})$"
)
_PERIODS = re.compile(r"(box|side|period)(_?(size|length|len|side))?$", re.IGNORECASE)
_POSITIVE = re.compile(r"(sigma\w*|std\w*|scales?|var|variances?|rates?|tau|nu|precisions?|counts?|kappa)$")
_INDICES = re.compile(r"(\w+_)?(ids?|idx|indices|index|tokens?)$")
_COUNTS = re.compile(r"((n|num|max)_\w+|\w*steps|stride|kernel_size|groups|n_?heads|heads|order|degree)$")
_ZEROS = re.compile(r"(seed|axis|dim|pad|padding|ignore_index|padding_idx)$")
_FLAGS = re.compile(r"(train|training|is_\w+|use_\w+|causal|inplace|verbose|deterministic|from_logits|keepdims?)$")
_SMALL = re.compile(r"eps\w*|epsilon")
_EQUATION_TIME = "0.3"
_PERIOD = "1.5"  # so that some of the numbers of randn are reduced by it, and some are not


def likely_points(
    parameters: Sequence[Parameter], n: int, wrt: str = "", as_layer: bool = True, as_function: bool = True
) -> Iterator[str]:
    """Yield points for the parameters that have no default, the likeliest first; vectors of unknown size have n entries.

    `wrt` is the state of a differential equation, beside which a time is one number. `as_layer` tries the shapes of layers,
    and `as_function` those of other functions.
    """
    names = [p.name for p in parameters if not p.default]
    for drawn in likely_values(parameters, n, wrt, as_layer, as_function):
        texts = (text if (text := drawn[name]).startswith(f"{name}.") else f"{name}={text}" for name in names)
        yield ", ".join(texts)  # a table of arrays is written entry by entry, as params.W=randn(3,3)


def outline_point(parameters: Sequence[Parameter], wrt: str = "") -> list[str]:
    """Return the values of the parameters that have no default, as far as they are known: `x=randn(?), k=int(2)`."""
    needed = [p for p in parameters if not p.default]
    sizes = _numbers_of_sizes(needed, SIZES[0])
    first = {p.name: _choices_of_value(p, sizes, SIZES[0], wrt)[0] for p in needed}
    open_ = {p.name: "?" if p.kind == "function" else "randn(?)" for p in needed}
    return [f"{name}={text if text is not None else open_[name]}" for name, text in first.items()]


def is_data_name(name: str) -> bool:
    """Whether an argument of this name is an array of data: a matrix, or the values beside one."""
    return _is_matrix_name(name) or _LABELS.match(name) is not None


def likely_values(
    parameters: Sequence[Parameter], n: int, wrt: str = "", as_layer: bool = True, as_function: bool = True
) -> Iterator[dict[str, str]]:
    """Yield the values of such points by the names of the parameters."""
    needed = [p for p in parameters if not p.default]
    names = [p.name for p in needed]
    sizes = _numbers_of_sizes(needed, n)
    known = [*_combine_choices({p.name: _choices_of_value(p, sizes, n, wrt) for p in needed})]
    rows = _ROWS if any(map(_is_matrix, needed)) or any(map(_is_matrix_name, names)) else 3
    for fixed in known:
        if not {*names} - fixed.keys():
            yield fixed
        elif as_function:
            yield from _points_of_function(names, n, rows, fixed)
    open_ = [fixed for fixed in known if {*names} - fixed.keys()]
    if as_function:
        yield from ({name: _number_text(name) for name in names} | fixed for fixed in open_)
    for fixed in open_ if as_layer else ():
        yield from _points_of_layer(names, n, fixed)
    for fixed in open_[:2]:
        yield from _points_of_any_shapes(names, n, fixed)


def _is_matrix_name(name: str) -> bool:
    return name[:1].isupper() or _MATRICES.match(name) is not None


def _combine_choices(choices: Mapping[str, list[str | None]]) -> Iterator[dict[str, str]]:
    """Yield what is known of the arguments: by the first choice of each, by another of one of them, and of all that have one.

    An argument whose choice is None is left out: its shape is not known.
    """
    first = {name: texts[0] for name, texts in choices.items()}
    more = {name: texts[1:] for name, texts in choices.items() if len(texts) > 1}
    chosen = [first, *({**first, name: text} for name, texts in more.items() for text in texts)]
    if len(more) > 1:
        second = {name: texts[0] for name, texts in more.items()}
        chosen += [{**first, **second}, *({**first, **second, name: first[name]} for name in more)]
    for several in chosen:
        yield {name: text for name, text in several.items() if text is not None}


def _is_matrix(parameter: Parameter) -> bool:
    indices = parameter.kind == "integers" or (not parameter.kind and _INDICES.match(parameter.name) is not None)
    return (parameter.sizes is not None and len(parameter.sizes) > 1) or indices


def _numbers_of_sizes(parameters: Sequence[Parameter], n: int) -> dict[str, int]:
    """Return a number for each size that has a name: the last axis of a matrix is short, the first is long."""
    found: dict[str, int] = {}
    shapes = [p.sizes for p in parameters if p.sizes is not None]
    named = [[next(iter(re.findall(r"[A-Za-z_]\w*", size)), "") for size in shape] for shape in shapes]
    others = itertools.cycle(_OTHERS)
    for shape in sorted(named, key=len, reverse=True):
        for k in (len(shape) - 1, *range(len(shape) - 1)):
            if not shape[k] or shape[k] in found:
                continue
            free = [size for size in ((n,) if k == len(shape) - 1 else (_ROWS,)) if size not in found.values()]
            found[shape[k]] = free[0] if free else next(others)
    return found


def _numbers_of_shape(shape: Sequence[str], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the sizes of a shape such as n, 16, n+1, 2*d."""

    def number(node: ast.expr) -> int:
        if isinstance(node, ast.BinOp):
            left, right = number(node.left), number(node.right)
            return left + right if isinstance(node.op, ast.Add) else left * right
        return sizes[node.id] if isinstance(node, ast.Name) else int(ast.literal_eval(node))

    return tuple(number(ast.parse(size, mode="eval").body) for size in shape)


def _choices_of_value(parameter: Parameter, sizes: Mapping[str, int], n: int, wrt: str) -> list[str | None]:
    """Return how a value of a parameter may be written, the likeliest first; None stands for an array of unknown shape."""
    name, kind, values = parameter.name, parameter.kind, parameter.values
    if wrt and name != wrt and name in ("t", "time"):
        return [_EQUATION_TIME]
    shape = None if parameter.sizes is None else _numbers_of_shape(parameter.sizes, sizes)
    if shape is not None and math.prod(shape) > _LARGEST:
        shape = None
    if kind == "definite":
        return [f"spd({(shape or (n,))[0]})"]
    if kind == "integers" or (not kind and shape is None and _INDICES.match(name)):
        several = [shape] if shape is not None else [(_ROWS,), (_ROWS, 2), (n,)]
        return [f"int({_indices_text(each)})" for each in several]
    if shape is not None:
        return [_array_text(name, shape)]
    if kind in ("number", "integer", "flag") and values:
        return [f"int({value})" if kind == "integer" else value for value in values]
    if kind == "number":
        return [_number_text(name)]
    if kind == "period" or (not kind and _PERIODS.match(name)):
        return [_PERIOD, None]
    if kind == "integer":
        return ["int(0)" if _ZEROS.match(name) else "int(2)"]
    if kind == "flag":
        return ["True", "False"]
    if kind == "text":
        return [f'"{value}"' for value in values] or ['"mean"']
    if kind == "table":
        arrays = ", ".join(f"{name}.{key}=randn({n},{n})" for key in values if key.isidentifier())
        plain = "{" + ", ".join(f'"{key}": 0.5' for key in values) + "}"
        return [plain, *([arrays] if arrays else [])]
    if kind:
        return [None]
    if wrt and name != wrt:
        return [_number_text(name), None]
    if _TABLES.match(name):
        return [None, "{}"] if "param" in name else ["{}", None]
    if _ZEROS.match(name):
        return ["int(0)"]
    if _COUNTS.match(name):
        return ["int(2)", None]
    if _FLAGS.match(name):
        return ["True", "False"]
    return [_number_text(name), None] if _NUMBERS.match(name) else [None, "0.5"] if _POSITIVE.match(name) else [None]


def _number_text(name: str) -> str:
    if _SMALL.match(name):
        return "1e-5"
    return "0.5" if _NUMBERS.match(name) or _POSITIVE.match(name) else "0.7"


def _array_text(name: str, shape: Sequence[int]) -> str:
    sizes = ",".join(map(str, shape))
    return f"uniform(0.5, 1.5, {sizes})" if _POSITIVE.match(name) else f"randn({sizes})"


def _indices_text(shape: Sequence[int]) -> str:
    """Return small integers as a list of this shape, as it is written."""
    few = itertools.cycle((0, 2, 1))

    def filled(left: Sequence[int]) -> list[object]:
        return [next(few) if len(left) == 1 else filled(left[1:]) for _ in range(left[0])]

    return str(filled(shape))


def _label_texts(count: int) -> list[str]:
    """Return labels of so many rows, as they are written: numbers, real numbers, integers."""
    found = str([k % 2 for k in range(count)])
    return [found, f"randn({count})", f"int({found})"]


def _points_of_function(names: Sequence[str], n: int, rows: int, fixed: dict[str, str]) -> Iterator[dict[str, str]]:
    """Yield points for arguments of these names: vectors, and matrices for capitals."""
    for matrix in ((_ROWS, n), (n, n)):
        labels = [name for name in names if _LABELS.match(name) and len(names) > 1]
        drawn = {name: _array_text(name, matrix if _is_matrix_name(name) else (n,)) for name in names}
        for label in _label_texts(rows if matrix[0] == _ROWS else n):
            yield drawn | dict.fromkeys(labels, label) | fixed


def _points_of_layer(names: Sequence[str], n: int, fixed: dict[str, str]) -> Iterator[dict[str, str]]:
    """Yield points for the arguments of a forward pass: of several rows first."""
    m = CLASSES
    shapes: tuple[tuple[tuple[int, ...], ...], ...] = (  # of x, of a weight, of a bias, of a scale, of a state
        ((5, n), (n, m), (m,), (n,), (5, m)), ((5, n), (n,), (n,), (n,), (5, n)), ((5, n), (n,), (1,), (n,), (5,)),
        ((n,), (n,), (1,), (n,), (m,)), ((n,), (m, n), (m,), (n,), (m,)), ((5, n), (m, n), (m,), (n,), (5, m)),
        ((n, 5), (m, n), (m, 1), (n, 1), (m, 5)), ((2, n, 6, 6), (m, n, 3, 3), (m,), (n,), (2, m)),
        ((2, 1, 6, 6), (m, 1, 3, 3), (m,), (n,), (2, m)), ((2, 5, n), (n, m), (m,), (n,), (2, m)), ((), (), (), (), ()),
    )  # fmt: skip
    for x, weight, bias, scale, state in shapes:
        rows = x[0] if x else 3
        hot = ", ".join("[1, 0, 0]" if k % 2 else "[0, 0, 1]" for k in range(rows))
        labels = [*_label_texts(rows), f"[{hot}]", ""]
        is_loss = any(map(_LABELS.match, names)) and (len(names) > 1 or names[0].startswith("i"))
        for label in labels if is_loss else [""]:
            parts = {}
            for name in names:
                roles = ((_WEIGHTS, weight), (_BIASES, bias), (_SCALES, scale), (_STATES, state))
                shape = next((shape for role, shape in roles if role.match(name)), x)
                drawn = _array_text(name, shape) if shape else "0.7"
                if _LABELS.match(name) and label:
                    drawn = label
                elif is_loss and shape and _PREDICTIONS.match(name):
                    drawn = f"uniform(0.1, 0.9, {','.join(map(str, shape))})"
                parts[name] = drawn
            yield parts | fixed


def _points_of_any_shapes(names: Sequence[str], n: int, fixed: dict[str, str]) -> Iterator[dict[str, str]]:
    """Yield points at which the arguments of unknown shape have others: vectors that are longer by one, then any small shapes."""
    unknown = [name for name in names if name not in fixed]
    if not 0 < len(unknown) <= _MOST_UNKNOWN:
        return
    longer = [[(_ROWS, n)] if _is_matrix_name(name) else [(n,), (n + 1,)] for name in unknown]
    if any(map(_is_matrix_name, unknown)):
        longer = [[(_ROWS,)] if _LABELS.match(name) else each for name, each in zip(unknown, longer, strict=True)]
    shapes: list[tuple[int, ...]] = [(_ROWS, n), (n,), (_ROWS,), (n, n), ()]
    for chosen in itertools.chain(itertools.product(*longer), itertools.product(shapes, repeat=len(unknown))):
        both = zip(unknown, chosen, strict=True)
        yield {name: _array_text(name, each) if each else _number_text(name) for name, each in both} | fixed
