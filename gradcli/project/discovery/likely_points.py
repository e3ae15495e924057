"""Points that a check may run at, as `--at` writes them: by what a function says of its arguments, else by their names."""

import ast
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from gradcli.project.discovery.project import Parameter

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
_POSITIVE = re.compile(r"(sigma\w*|std\w*|scales?|var|variances?|rates?|tau|nu|precisions?|counts?|kappa)$")
_INDICES = re.compile(r"(\w+_)?(ids?|idx|indices|index|tokens?)$")
_COUNTS = re.compile(r"((n|num|max)_\w+|\w*steps|stride|kernel_size|groups|n_?heads|heads|order|degree)$")
_ZEROS = re.compile(r"(seed|axis|dim|pad|padding|ignore_index|padding_idx)$")
_FLAGS = re.compile(r"(train|training|is_\w+|use_\w+|causal|inplace|verbose|deterministic|from_logits|keepdims?)$")
_SMALL = re.compile(r"eps\w*|epsilon")
_EQUATION_TIME = "0.3"


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
