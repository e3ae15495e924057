"""One Python file as it is written, and what the bodies of its functions show: whether they compute, and what they return."""

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import field
from functools import cache, lru_cache
from types import FunctionType

from gradcli.classes import dataclass
from gradcli.request.target_text import OUTPUTS
from gradcli.words import DerivativeKind

# One Python file as it is written: its functions, classes, imports, names bound by assignment, and calls of interest.

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_BOUND = (ast.Name, ast.Attribute, ast.Call, ast.Lambda, ast.Dict, ast.IfExp)
DERIVATIVE_ARGUMENTS: dict[str, DerivativeKind] = {  # of functions of scipy, by name
    "jac": "jac", "fprime": "grad", "fprime2": "hess", "grad": "grad", "hess": "hess", "hessp": "hvp", "Dfun": "jac",
    "fun_jac": "jac", "bc_jac": "jac", "fhess": "hess", "fhess_p": "hvp", "fprime_eqcons": "jac", "fprime_ieqcons": "jac",
    "myfprime": "grad",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class SourceFunction:
    """A function or lambda: its qualified name, its line, the scope it stands in, and its tree."""

    file: str
    name: str
    line: int
    scope: str
    node: Function
    owner: str | None = None

    @property
    def last(self) -> str:
        """The name without the scopes around it."""
        return self.name.rpartition(".")[2]

    @property
    def decorators(self) -> tuple[ast.expr, ...]:
        """The expressions of the decorators."""
        return () if isinstance(self.node, ast.Lambda) else tuple(self.node.decorator_list)

    @property
    def parameters(self) -> tuple[ast.arg, ...]:
        """The positional parameters, without the object or class of a method."""
        found = (*self.node.args.posonlyargs, *self.node.args.args)
        return found[1:] if self.owner is not None and not self.marked("staticmethod") else found

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all parameters that can be given by name, without the object or class of a method."""
        return tuple(a.arg for a in (*self.parameters, *self.node.args.kwonlyargs))

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the positional parameters without a default."""
        count = len(self.parameters) - len(self.node.args.defaults)
        return tuple(a.arg for a in self.parameters[: max(0, count)])

    def marked(self, *names: str) -> bool:
        """Whether a decorator has one of these last names."""
        return any(last_name(d) in names for d in self.decorators)


@dataclass(frozen=True, slots=True, eq=False)
class Class:
    """A class: its qualified name, the scope it stands in, and the expressions of its bases."""

    file: str
    name: str
    line: int
    scope: str
    bases: tuple[ast.expr, ...]


@dataclass(frozen=True, slots=True)
class Import:
    """Where an imported name comes from: the module, the name in it (None: the module itself), and the leading dots."""

    module: str
    name: str | None
    level: int

    def full_name(self, rest: str = "") -> str:
        """Return the full name of what is imported, or of what has the name `rest` in it."""
        return ".".join(filter(None, ("." * self.level + self.module, self.name, rest)))


@dataclass(slots=True)
class FileScopes:
    """What one file holds, by scope: the qualified name of a function or class, empty for the module."""

    file: str
    functions: dict[str, dict[str, list[SourceFunction]]] = field(default_factory=dict)
    classes: dict[str, Class] = field(default_factory=dict)
    imports: dict[str, Import] = field(default_factory=dict)
    stars: list[Import] = field(default_factory=list)
    bound: dict[str, dict[str, list[ast.expr]]] = field(default_factory=dict)
    calls: list[tuple[str, ast.Call]] = field(default_factory=list)
    dicts: list[tuple[str, ast.Dict]] = field(default_factory=list)
    parameters: dict[str, frozenset[str]] = field(default_factory=dict)
    imported: frozenset[str] = frozenset()  # the outermost modules

    def definitions(self) -> Iterator[SourceFunction]:
        """Yield the functions of all scopes."""
        for scope in self.functions.values():
            for several in scope.values():
                yield from several


def last_name(expression: ast.expr) -> str:
    """Return the last name of a name, an attribute or a call of one; empty for any other expression."""
    while isinstance(expression, ast.Call):
        expression = expression.func
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else ""


def dotted_name(expression: ast.expr) -> str | None:
    """Return `a.b.c` for an attribute of an attribute of a name, None for any other expression."""
    found = []
    while isinstance(expression, ast.Attribute):
        found.append(expression.attr)
        expression = expression.value
    if not isinstance(expression, ast.Name):
        return None
    return ".".join((expression.id, *reversed(found)))


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, without those of the scopes inside; these scopes themselves are among them."""
    body = node.body if isinstance(node, ast.Lambda) else None
    waiting: list[ast.AST] = [body] if body is not None else [*reversed(getattr(node, "body", []))]
    while waiting:
        found = waiting.pop()
        yield found
        if not isinstance(found, _SCOPES):
            waiting += _child_nodes(found)


def _child_nodes(node: ast.AST) -> list[ast.AST]:
    """Return the nodes right below a node, the last first, without the marks of loading and storing."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            found += [each for each in value if isinstance(each, ast.AST)]
        elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context | ast.operator):
            found.append(value)
    found.reverse()
    return found


def names_of_parameters(node: Function) -> frozenset[str]:
    """Return the names of all parameters of a function, with those of `*args` and `**options`."""
    args = node.args
    rest = [a for a in (args.vararg, args.kwarg) if a is not None]
    return frozenset(a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs, *rest))


def collect_scopes(tree: ast.Module, file: str) -> FileScopes:
    """Return what a parsed file holds."""
    source = FileScopes(file)
    waiting: list[tuple[ast.AST, str, bool]] = [(tree, "", False)]
    while waiting:
        node, scope, in_class = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            source.parameters[scope] = names_of_parameters(node)
        for found in own_nodes(node):
            if isinstance(found, _SCOPES):
                waiting.append(_enter_scope(source, found, scope, in_class))
            else:
                _note_node(source, found, scope)
    names = {i.module.partition(".")[0] for i in (*source.imports.values(), *source.stars) if not i.level}
    source.imported = frozenset(names)
    return source


def _enter_scope(source: FileScopes, node: ast.AST, scope: str, in_class: bool) -> tuple[ast.AST, str, bool]:
    if isinstance(node, ast.ClassDef):
        name = _qualified_name(scope, node.name)
        source.classes[name] = Class(source.file, name, node.lineno, scope, tuple(node.bases))
        return node, name, True
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    if isinstance(node, ast.Lambda):
        name = _qualified_name(scope, f"<lambda {node.lineno}:{node.col_offset}>")
        return node, name, False
    name = _qualified_name(scope, node.name)
    definition = SourceFunction(source.file, name, node.lineno, scope, node, scope if in_class else None)
    source.functions.setdefault(scope, {}).setdefault(node.name, []).append(definition)
    for decorator in node.decorator_list:
        for inner in ast.walk(decorator):
            _note_node(source, inner, scope)
    return node, name, False


def _qualified_name(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _note_node(source: FileScopes, node: ast.AST, scope: str) -> None:
    """Keep an import, an assignment to a name, a call or a dictionary that may be of interest."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            head = alias.name if alias.asname else alias.name.partition(".")[0]
            source.imports[alias.asname or head] = Import(head, None, 0)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            if alias.name == "*":
                source.stars.append(Import(node.module or "", None, node.level))
            else:
                source.imports[alias.asname or alias.name] = Import(node.module or "", alias.name, node.level)
    elif isinstance(node, ast.Assign) and isinstance(node.value, _BOUND):
        for target in node.targets:
            if isinstance(target, ast.Name):
                source.bound.setdefault(scope, {}).setdefault(target.id, []).append(node.value)
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(node.value, _BOUND):
        source.bound.setdefault(scope, {}).setdefault(node.target.id, []).append(node.value)
    elif isinstance(node, ast.Call):
        source.calls.append((scope, node))
    elif isinstance(node, ast.Dict):
        keys = {key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
        if not keys.isdisjoint(DERIVATIVE_ARGUMENTS):
            source.dicts.append((scope, node))


# What the bodies of functions show.

_NOTHING = ("NotImplementedError", "NotImplemented")
_PROPERTIES = ("abstractmethod", "abstractproperty", "overload", "property", "cached_property", "setter", "getter", "deleter",
               "cache_readonly", "hybrid_property", "fixture")  # fmt: skip
_DIFFERENTIATED = re.compile(  # a call whose result is a derivative that nobody wrote
    r"_*(approx_?(fprime|hess|jac|deriv|grad)|numerical?_?(grad|jac|hess|deriv)|finite_?diff|num_?(grad|jac|hess)|"
    r"value_and_grad|jacfwd|jacrev|elementwise_grad|check_grad|nd_?grad|numdiff)",
    re.IGNORECASE,
)
_OF_LIBRARIES = {
    "torch": frozenset({"grad", "jacobian", "hessian", "vjp", "jvp", "hvp", "vhp", "jacrev", "jacfwd"}),
    "jax": frozenset({"grad", "jacobian", "hessian", "vjp", "jvp", "linearize"}),
    "autograd": frozenset({"grad", "jacobian", "hessian", "make_vjp", "make_jvp", "hessian_vector_product"}),
    "mlx": frozenset({"grad", "vjp", "jvp"}),
    "numdifftools": frozenset({"Gradient", "Jacobian", "Hessian", "Derivative", "Hessdiag"}),
    "scipy": frozenset({"derivative", "approx_derivative", "approx_fprime", "jacobian", "hessian"}),
    "casadi": frozenset({"gradient", "jacobian", "hessian"}),
    "sympy": frozenset({"diff", "lambdify", "hessian"}),
}
_NUMERICAL = frozenset({"numdiff", "finite", "complex", "numerical", "approx", "cs", "fd", "difference"})
_SHORT_VALUES = frozenset({"f", "l", "e", "j", "q", "v", "fx", "fval", "k"})
_SHORT_GRADIENTS = frozenset({"g", "df", "dfdx", "dj", "dl", "gf", "gx", "dx"})


@lru_cache(maxsize=256)
def _nodes_of_body(definition: SourceFunction) -> tuple[ast.AST, ...]:
    return tuple(own_nodes(definition.node))


def has_own_body(definition: SourceFunction) -> bool:
    """Whether a function is more than an interface: not a property, not abstract, not empty, not only a call of super()."""
    if definition.marked(*_PROPERTIES):
        return False
    if isinstance(definition.node, ast.Lambda):
        return True
    body = [each for each in definition.node.body if not isinstance(each, ast.Pass | ast.Import | ast.ImportFrom)]
    body = [each for each in body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    if not body or isinstance(body[0], ast.Raise):
        return False
    if len(body) > 1 or not isinstance(body[0], ast.Return):
        return True
    value = body[0].value  # nothing, an error, or what the same method of the base class returns, is no body
    if value is None or (isinstance(value, ast.Constant) and value.value is None) or last_name(value) in _NOTHING:
        return False
    called = value.func if isinstance(value, ast.Call) else None
    same = isinstance(called, ast.Attribute) and called.attr == definition.last and last_name(called.value) == "super"
    return not same


def returned_expressions(definition: SourceFunction) -> list[ast.expr]:
    """Return the expressions that a function returns, without None."""
    if isinstance(definition.node, ast.Lambda):
        return [definition.node.body]
    found = [node.value for node in _nodes_of_body(definition) if isinstance(node, ast.Return)]
    return [x for x in found if x is not None and not (isinstance(x, ast.Constant) and x.value is None)]


def count_returned_entries(definition: SourceFunction) -> int | None:
    """Return how many entries the list has that a function returns, as it is or as an array; None where it is no list."""
    counts: set[int | None] = set()
    for value in returned_expressions(definition):
        if isinstance(value, ast.Call) and last_name(value) in ("array", "asarray", "tensor") and value.args:
            value = value.args[0]
        counts.add(len(value.elts) if isinstance(value, ast.List | ast.Tuple) else None)
    return counts.pop() if len(counts) == 1 else None


def _targets_of_assignments(definition: SourceFunction) -> list[ast.expr]:
    return [t for node in _nodes_of_body(definition) if isinstance(node, ast.Assign) for t in node.targets]


def writes_entries(definition: SourceFunction) -> bool:
    """Whether a function writes into entries of an array, as `dout[mask] = 0` does."""
    return any(isinstance(target, ast.Subscript) for target in _targets_of_assignments(definition))


def has_stored_values(definition: SourceFunction) -> bool:
    """Whether a function assigns to an attribute or to an entry, as a layer does that keeps a parameter's gradient."""
    targets = _targets_of_assignments(definition)
    targets += [node.target for node in _nodes_of_body(definition) if isinstance(node, ast.AugAssign)]
    return any(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)


def has_stored_output(definition: SourceFunction) -> bool:
    """Whether a method assigns to an attribute that is called the output."""
    targets = _targets_of_assignments(definition)
    return any(isinstance(target, ast.Attribute) and target.attr in OUTPUTS for target in targets)


def passes_on_argument(definition: SourceFunction) -> bool:
    """Whether all that a function does is to return an argument, as the backward pass of an identity does."""
    values = returned_expressions(definition)
    return bool(values) and all(isinstance(value, ast.Name) and value.id in definition.names for value in values)


def is_autodiff_engine(methods: Iterable[SourceFunction]) -> bool:
    """Whether the methods of a class make values that hold their own step of the backward pass: `out._backward = _backward`."""
    nodes = (node for method in methods for node in _nodes_of_body(method) if isinstance(node, ast.Assign))
    targets = (target for node in nodes if isinstance(node.value, ast.Name | ast.Lambda) for target in node.targets)
    attributes = (target for target in targets if isinstance(target, ast.Attribute))
    return any(is_backward_pass_name(target.attr) and last_name(target.value) != "self" for target in attributes)


def may_return_tuple(definition: SourceFunction) -> bool:
    """Whether a function returns a tuple somewhere."""
    return any(isinstance(value, ast.Tuple) for value in returned_expressions(definition))


# What the name of a function says: whether it is that of a derivative, of which kind, and of which function.

KINDS: dict[str, DerivativeKind] = {
    **dict.fromkeys(("grad", "grads", "gradient", "gradients", "prime", "fprime", "score", "scoreobs"), "grad"),
    **dict.fromkeys(("deriv", "derivs", "derivk", "derivative", "derivatives", "der", "psi"), "grad"),
    **dict.fromkeys(("jac", "jacobian"), "jac"),
    **dict.fromkeys(("hess", "hessian"), "hess"),
    **dict.fromkeys(("hvp", "hessp"), "hvp"),
    "jvp": "jvp",
    "vjp": "vjp",
}
LIKELIHOODS = frozenset({
    "loglike", "loglik", "loglikelihood", "logl", "likelihood", "llf", "ll", "nll", "lnlike", "lnprob", "logp",
    "logpost", "logposterior", "loglikeobs", "llobs", "objective",
})  # fmt: skip
VALUES = LIKELIHOODS | frozenset({
    "loss", "cost", "obj", "energy", "error", "value", "val", "fun", "func", "function", "fn", "f", "criterion",
    "elbo", "penalty", "potential", "residual", "residuals", "resid", "divergence", "merit", "rho",
    "reg", "regularizer", "regularization",
})  # fmt: skip
MAPS = frozenset({  # of a class: what else it may have a derivative of
    "call", "predict", "inverse", "transform", "forward", "eval", "evaluate",
})  # fmt: skip
OF_ARRAYS = frozenset({"predict", "inverse", "transform", "forward"})  # whose values have no Hessian
HESSIANS = frozenset({"hess", "hessian", "hessp", "hvp"})
STOP = frozenset({
    "make", "generate", "wrap", "create", "requires", "require", "zero", "no", "enable", "disable", "set", "clip",
    "check", "test", "tests", "has", "is", "use", "needs", "need", "apply", "update", "plot", "show", "print", "save",
    "load", "init", "initialize", "sync", "reduce", "accumulate", "norm", "norms", "step", "descent", "ascent",
    "boosting", "numerical", "numeric", "num", "numdiff", "approx", "approximate", "finite", "fd", "cs", "complex",
    "register", "with", "without", "allow", "retain", "detach", "hook", "samples", "residuals", "request", "confint",
    "params", "helper", "image", "color", "colour", "policy", "conjugate", "linear", "radial", "fit", "train",
    "checkpoint", "clipping", "scorer", "from", "opg", "stats", "statistic",
})  # fmt: skip
WEAK = frozenset({"score", "scoreobs", "prime", "der", "psi"})  # words that also mean other things
MEASURES = frozenset({  # of a gradient, not a gradient
    "norm", "norms", "max", "min", "abs", "mean", "len", "shape", "size", "new", "next", "updated",
})  # fmt: skip
NEUTRAL = frozenset({  # which say nothing of what it is a derivative of: verbs, and ways to compute it
    "get", "compute", "calc", "calculate", "eval", "evaluate", "of", "and", "the", "wrt", "by",
    "fast", "slow", "naive", "old", "vectorized", "vectorised", "loop", "loops", "reference", "ref", "analytic", "analytical",
    "exact", "explicit", "impl",
})  # fmt: skip
_FORWARD = frozenset({"forward", "forwardpass", "fprop", "feedforward", "propagate", "forwardpropagation"})
_BACKWARD = frozenset({"backward", "backwardpass", "bprop", "backprop", "backpropagate", "backpropagation"})
_FUSED = re.compile(
    r"(?P<base>[a-z]\w*?)(?P<word>grad|hess|score|prime|jac|deriv)|(?P<word2>score|deriv|grad)(?P<rest>[a-z]+)"
)
_PART = re.compile(r"[A-Z]+(?![^\WA-Z\d_])|[A-Z]?[^\WA-Z\d_]+\d*|\d+")
_ORDER = re.compile(r"(deriv|der|prime|fprime|grad)(\d)")
_OF_DERIVATIVES = frozenset({"deriv", "derivs", "derivative", "derivatives", "der", "prime"})  # psi_deriv: of psi
_PRODUCT = frozenset({"prod", "product", "vec", "vector", "p"})


@dataclass(frozen=True, slots=True)
class NameReading:
    """One way to read a name: the kind of derivative, and the word that says so.

    `plain` are the keys that its function has without the word, `swapped` those with a word for a value in its place. `rest`
    are the words beside it that say more: `factor` of `hessian_factor`. It is `bare` without any.
    """

    kind: DerivativeKind
    word: str
    plain: tuple[str, ...]
    swapped: tuple[str, ...]
    rest: tuple[str, ...] = ()

    @property
    def bare(self) -> bool:
        """Whether the name has no word that says more."""
        return not self.rest


@cache
def words_of_name(name: str) -> tuple[str, ...]:
    """Return the words of a name: `lossGrad_obs` has loss, grad, obs."""
    return tuple(part.lower() for part in _PART.findall(name))


@cache
def normalise_name(name: str) -> str:
    """Return the name as names are compared: without underscores, and in lower case."""
    return name.replace("_", "").lower()


def kind_of_word(word: str) -> DerivativeKind | None:
    """Return the kind of derivative that a word says, or None: `deriv2` is a second derivative."""
    order = _ORDER.fullmatch(word)
    if order is not None:
        return "hess" if order[2] == "2" else "grad"
    return KINDS.get(word)


def has_stop_word(name: str) -> bool:
    """Whether a word of the name says that it is no derivative by hand, as in `clip_grad` and `numerical_gradient`."""
    return not STOP.isdisjoint(words_of_name(name))


def is_value_name(name: str) -> bool:
    """Whether the name is one that functions have of which derivatives are taken, such as `neg_loglike`."""
    whole = normalise_name(name)
    return whole in VALUES or not VALUES.isdisjoint(words_of_name(name)) or whole.endswith(_ENDINGS)


_ENDINGS = ("loglike", "loglik", "likelihood", "objective", "loss", "cost", "loglikeobs")


def has_only_value_words(name: str) -> bool:
    """Whether every word of the name says so: `objective_func`, `_nploglike`, but not `quantile_func`."""
    words = set(words_of_name(name))
    return (words <= VALUES | _SIGNS and not words <= _SIGNS) or normalise_name(name).endswith(_ENDINGS)


_SIGNS = frozenset({"neg", "negative", "minus", "log", "my", "total", "compute", "calc", "get", "np", "n"})


def is_likelihood_name(name: str) -> bool:
    """Whether the name is that of a function whose gradient is called its score."""
    whole = normalise_name(name)
    return not LIKELIHOODS.isdisjoint((whole, *words_of_name(name))) or whole.endswith(_ENDINGS[:4])


def is_forward_pass_name(name: str) -> bool:
    """Whether the name is that of a forward pass."""
    return normalise_name(name) in _FORWARD


def is_backward_pass_name(name: str) -> bool:
    """Whether the name is that of a backward pass."""
    return normalise_name(name) in _BACKWARD


def is_joint_gradient_name(name: str) -> bool:
    """Whether the name says that a value and its derivative are returned together: `loss_and_grad`."""
    words = words_of_name(name)
    if "and" not in words:
        return False
    middle = words.index("and")
    before, after = words[:middle], words[middle + 1 :]
    return not VALUES.isdisjoint(before) and any(kind_of_word(word) for word in after)


def is_gradient_name(name: str) -> bool:
    """Whether a variable of this name holds a derivative."""
    words = words_of_name(name)
    return any(kind_of_word(w) and w not in WEAK - {"score"} for w in words) and MEASURES.isdisjoint(words)


def lookup_keys(name: str) -> tuple[str, str]:
    """Return the two forms under which a function is found: without underscores, and its words between underscores."""
    return normalise_name(name), "_".join(("", *words_of_name(name), ""))


@cache
def read_derivative_name(name: str) -> tuple[NameReading, ...]:
    """Return the ways to read a name as that of a derivative: none for `type`, one or two for `grad_focal`."""
    return tuple(_yield_name_readings(name))


def _yield_name_readings(name: str) -> Iterator[NameReading]:
    words = words_of_name(name)
    places = [k for k, word in enumerate(words) if kind_of_word(word)]
    if places:
        higher = [*_higher_derivative_readings(words, places)]
        yield from higher or [_reading_with_word(words, places)]
        return
    for k, word in enumerate(words):
        fused = _FUSED.fullmatch(word)
        if fused is not None:
            found = fused["word"] or fused["word2"]
            rest = fused["base"] or fused["rest"]
            yield _reading_with_word((*words[:k], rest, found, *words[k + 1 :]), [k + 1])
    whole = normalise_name(name)
    if words and len(whole) > 1 and whole[0] == "d" and name.strip("_").lower().startswith("d"):
        yield NameReading("grad", "d", (whole[1:],), (), (whole[1:],))


def _higher_derivative_readings(words: tuple[str, ...], places: list[int]) -> Iterator[NameReading]:
    """Yield the readings of a name as a derivative of a derivative, by its name: `psi_deriv` of psi, `deriv3_f` of deriv2_f."""
    for k in places:
        order = _ORDER.fullmatch(words[k])
        if order is not None and int(order[2]) > 2:
            less = f"{order[1]}{int(order[2]) - 1}"
            yield NameReading("grad", words[k], ("".join((*words[:k], less, *words[k + 1 :])),), (), words)
        elif words[k] in _OF_DERIVATIVES and len(places) > 1:
            rest = (*words[:k], *words[k + 1 :])
            by = [rest[:-1]] if rest[-1].startswith("d") else []  # deriv_score_dparams
            yield NameReading("grad", words[k], _unique_texts("".join(name) for name in (rest, *by)), (), words)


def _reading_with_word(words: tuple[str, ...], places: list[int]) -> NameReading:
    first = places[0]
    kind, word = kind_of_word(words[first]) or "grad", words[first]
    after = set(words[first + 1 : first + 3])
    product = kind == "hess" and bool(after & _PRODUCT)
    dropped = _PRODUCT if product else frozenset()
    rest = [w for k, w in enumerate(words) if k not in places and w not in dropped]
    plain = [w for w in rest if w not in NEUTRAL]
    direct = [] if word in ("score", "scoreobs") else ["".join(rest), "".join(plain)]
    swapped: list[str] = []
    for value in sorted(LIKELIHOODS if word in ("score", "scoreobs") else VALUES):
        left = [
            value if k == first else w
            for k, w in enumerate(words)
            if (k == first or k not in places) and w not in dropped
        ]
        for made in (left, [*plain, value], [value, *plain]):
            swapped.append("_".join(("", *made, "")) if len(value) <= _SHORT else "".join(made))
    return NameReading("hvp" if product else kind, word, _unique_texts(direct), _unique_texts(swapped), tuple(plain))


_SHORT = 4  # letters of a word that other words contain by chance


def _unique_texts(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for each in found if each))


def fills_a_gradient(definition: SourceFunction) -> bool:
    """Whether a function writes into an argument whose name is that of a derivative."""
    return _writes_into(definition, {name for name in definition.names if is_gradient_name(name)})


def has_result(definition: SourceFunction) -> bool:
    """Whether a function returns a value, or writes into one of its arguments."""
    return bool(returned_expressions(definition)) or _writes_into(definition, set(definition.names))


def _writes_into(definition: SourceFunction, names: set[str]) -> bool:
    """Whether a function changes what one of these names holds: `x[0] = y`, `x += y`, but not `x = y`."""
    targets: list[ast.expr] = [n.target for n in _nodes_of_body(definition) if isinstance(n, ast.AugAssign)]
    targets += [target for target in _targets_of_assignments(definition) if not isinstance(target, ast.Name)]
    into = (target.value if isinstance(target, ast.Subscript) else target for target in targets)
    return any(isinstance(target, ast.Name) and target.id in names for target in into)


def has_arithmetic(definition: SourceFunction, or_call: bool = True) -> bool:
    """Whether there is arithmetic in the body, or, if that is enough, a call."""
    kinds = (ast.BinOp, ast.UnaryOp, ast.AugAssign, *([ast.Call] if or_call else []))
    return any(isinstance(node, kinds) for node in _nodes_of_body(definition))


def has_only_lookups(definition: SourceFunction) -> bool:
    """Whether all that is returned is names and attributes."""
    values = returned_expressions(definition)
    return all(isinstance(value, ast.Name | ast.Attribute | ast.Subscript) for value in values)


def is_written_by_hand(definition: SourceFunction, origins: dict[str, str]) -> bool:
    """Whether what is returned does not come from numerical or automatic differentiation alone.

    `origins` are the full names of what the file imports.
    """
    nodes = _nodes_of_body(definition)
    called = (n.value.func for n in nodes if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call))
    if any(isinstance(each, ast.Attribute) and each.attr == "backward" for each in called):
        return False  # `loss.backward()`, whose result is not used: automatic differentiation
    taken = _differentiated_names(nodes, origins)
    values = returned_expressions(definition)
    return not values or not all(_is_from_differentiation(value, taken, origins) for value in values)


def _differentiated_names(nodes: Sequence[ast.AST], origins: dict[str, str]) -> set[str]:
    """Return the names that only ever hold what differentiation gives, or what is made of that."""
    sources: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                        sources.setdefault(name.id, []).append(node.value)
    taken: set[str] = set()
    for _ in range(4):  # as many steps as there are between the call and what is returned
        new = {n for n, values in sources.items() if all(_is_from_differentiation(v, taken, origins) for v in values)}
        if new <= taken:
            break
        taken |= new
    return taken


def _is_from_differentiation(value: ast.expr, taken: set[str], origins: dict[str, str]) -> bool:
    return any(
        node.id in taken if isinstance(node, ast.Name)
        else isinstance(node, ast.Call) and is_differentiation_call(node, origins)
        for node in ast.walk(value)
    )  # fmt: skip


def is_differentiation_call(call: ast.Call, origins: dict[str, str]) -> bool:
    """Whether a call differentiates a function, numerically or automatically."""
    name = last_name(call.func)
    if _DIFFERENTIATED.match(name):
        return True
    if isinstance(call.func, ast.Attribute):
        held, words = last_name(call.func.value), words_of_name(name)
        numerical = any(map(kind_of_word, words)) and not _NUMERICAL.isdisjoint(words)
        if (held == "tape" and name == "gradient") or (held == "self" and numerical):
            return True
    text = dotted_name(call.func)
    if text is None:
        return False
    head, _, rest = text.partition(".")
    whole = f"{origins[head]}.{rest}" if rest and head in origins else origins.get(head, "")
    library = _OF_LIBRARIES.get(whole.partition(".")[0], frozenset())
    return whole.rpartition(".")[2] in library


# Derivatives by differences that are written out: a function is called at two points, and what is between is divided by a step.

_LARGEST_STEP = 0.1  # of a step that is a number


def has_difference_quotients(definition: SourceFunction, functions: Collection[str]) -> bool:
    """Whether whatever is returned is made of difference quotients, or complex steps, of one of the functions, by their names.

    One such is `(f(x + e) - f(x - e)) / (2 * h)`. Parameters that are called are among the functions.
    """
    nodes = _nodes_of_body(definition)
    kept = _values_assigned_to_names(nodes)
    called = {*functions, *definition.names}

    def evaluations(value: ast.expr, depth: int = 3) -> set[int]:
        found = set()
        for node in ast.walk(value):
            if isinstance(node, ast.Call) and last_name(node.func) in called:
                found.add(id(node))
            elif isinstance(node, ast.Name) and depth:
                found |= {e for each in kept.get(node.id, ()) for e in evaluations(each, depth - 1)}
        return found

    def is_difference(node: ast.AST) -> bool:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            left, right = evaluations(node.left), evaluations(node.right)
            return bool(left and right) and left.isdisjoint(right)
        complex_step = isinstance(node, ast.Attribute | ast.Call) and last_name(node) == "imag"
        return complex_step and bool(evaluations(node))  # type: ignore[arg-type]

    def holds_difference(value: ast.expr, depth: int = 3) -> bool:
        if any(map(is_difference, ast.walk(value))):
            return True
        names = (n.id for n in ast.walk(value) if isinstance(n, ast.Name) and depth)
        return any(holds_difference(each, depth - 1) for name in names for each in kept.get(name, ()))

    shifts = _names_used_as_shifts(nodes)

    def is_quotient(node: ast.AST) -> bool:
        quotient = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        return quotient and _is_step_divisor(node.right, shifts) and holds_difference(node.left)  # type: ignore[attr-defined]

    if not any(map(is_quotient, nodes)):
        return False
    made: set[str] = set()  # names that hold a quotient, or what is made of one
    is_made = lambda value: any(is_quotient(n) or getattr(n, "id", None) in made for n in ast.walk(value))
    while new := {name for name, values in kept.items() if name not in made and any(map(is_made, values))}:
        made |= new
    return all(map(is_made, returned_expressions(definition)))


def _values_assigned_to_names(nodes: Sequence[ast.AST]) -> dict[str, list[ast.expr]]:
    """Return what is assigned or appended to each name, or to entries of it."""
    kept: dict[str, list[ast.expr]] = {}
    for node in nodes:
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Assign):
            for target in node.targets:
                several = target.elts if isinstance(target, ast.Tuple) else [target]
                values = node.value.elts if isinstance(node.value, ast.Tuple) else []
                whole = [node.value] * len(several)
                pairs += zip(several, values if len(values) == len(several) else whole, strict=True)
        elif isinstance(node, ast.AugAssign):
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            pairs = [(node.func.value, value) for value in node.args]
        for target, value in pairs:
            name = target.value if isinstance(target, ast.Subscript) else target
            if isinstance(name, ast.Name):
                kept.setdefault(name.id, []).append(value)
    return kept


def _names_used_as_shifts(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the names that are added, subtracted or assigned, and not only given to a function."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            waiting: list[ast.AST] = [node.left, node.right]
        elif isinstance(node, ast.Assign | ast.AugAssign):
            waiting = [node.value]
        else:
            continue
        while waiting:
            inner = waiting.pop()
            if isinstance(inner, ast.Name):
                found.add(inner.id)
            elif not isinstance(inner, ast.Call):
                waiting += ast.iter_child_nodes(inner)
    return found


def _is_step_divisor(value: ast.expr, shifts: set[str]) -> bool:
    """Whether a divisor is a small number, or a product of numbers and names by which something is shifted."""
    names: set[str] = set()
    for node in ast.walk(value):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, float) and 0 < abs(node.value) < _LARGEST_STEP:
                return True
        elif isinstance(node, ast.Call | ast.Add | ast.Sub | ast.Div):
            return False
    return bool(names) and not names.isdisjoint(shifts)


def returns_value_and_gradient(definition: SourceFunction) -> bool:
    """Whether a function returns a tuple of a value and its derivative, as the names in it say."""
    inside = {node.name for node in _nodes_of_body(definition) if isinstance(node, ast.FunctionDef)}
    tuples = [value.elts for value in returned_expressions(definition) if isinstance(value, ast.Tuple)]
    names = {name.lower() for name in definition.names}
    orders = [(elements[0], elements[1]) for elements in tuples if len(elements) >= 2]
    orders += [(b, a) for a, b in orders if not any("score" in name for name in _names_in_expression(a))]  # grads, cost
    if any(_is_value_and_gradient(a, b, names) and inside.isdisjoint(_names_in_expression(b)) for a, b in orders):
        return True
    keyed = (len(elements) == 2 and _is_keyed_by_parameters(elements[1], definition) for elements in tuples)
    return is_value_name(definition.last) and any(keyed)


def _is_keyed_by_parameters(value: ast.expr, definition: SourceFunction) -> bool:
    """Whether a dictionary has the keys by which the function reads its parameters: `{"W": ...}` beside `self.params["W"]`."""
    if not isinstance(value, ast.Dict) or not value.keys:
        return False
    read = {
        node.slice.value
        for node in _nodes_of_body(definition)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.Constant)
    }
    return all(isinstance(k, ast.Constant) and isinstance(k.value, str) and k.value in read for k in value.keys)


def is_gradient_of_parameter(name: str, parameters: set[str]) -> bool:
    """Whether a name is that of the gradient by one of the parameters, which are in small letters: `dW` of w."""
    spelled = re.fullmatch(r"d_?(\w+)|(\w+?)_?grad", name.lower())
    return spelled is not None and name != "dt" and not parameters.isdisjoint(spelled.groups())  # dt is a step of time


def may_return_gradient(function: FunctionType) -> bool:
    """Whether a function has a name for a gradient, so that its source is worth reading."""
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    parameters = {name.lower() for name in code.co_varnames[:count]}
    return is_joint_gradient_name(function.__name__) or any(
        is_gradient_name(name) or name.lower() in _SHORT_GRADIENTS or is_gradient_of_parameter(name, parameters)
        for name in code.co_varnames[count:]
    )


def is_joint_hand_gradient(node: ast.FunctionDef) -> bool:
    """Whether a function that stands alone returns its value and its gradient, and differentiates nothing by a library."""
    definition = SourceFunction("", node.name, node.lineno, "", node)
    both = is_joint_gradient_name(node.name) or returns_value_and_gradient(definition)
    return both and bool(definition.names) and is_written_by_hand(definition, {})


def _is_value_and_gradient(value: ast.expr, gradient: ast.expr, parameters: set[str]) -> bool:
    """Whether two expressions are those of a value and of its derivative; of `f` and `g`, neither says it alone.

    Of `dW` the parameter W says it.
    """
    if isinstance(gradient, ast.Call) and last_name(gradient.func) in _NUMBERS:
        return False
    names, others = _names_in_expression(value), _names_in_expression(gradient)
    words = {word for name in names for word in (*words_of_name(name), name.lower())}
    if any(kind_of_word(word) and word not in ("score", "der") for word in words):
        return False
    of_loss = not {"loss", "cost", "objective", "obj", "j"}.isdisjoint(words)  # dx beside an energy may be a difference
    clear = any(is_gradient_name(name) or (of_loss and is_gradient_of_parameter(name, parameters)) for name in others)
    if not (VALUES - _SHORT_VALUES).isdisjoint(words) or any("likelihood" in name for name in words):
        return clear or any(name.lower() in _SHORT_GRADIENTS and (of_loss or name != "dx") for name in others)
    return clear and not _SHORT_VALUES.isdisjoint(words)


_NUMBERS = ("norm", "max", "min", "abs", "mean", "len", "float")  # functions that make a number of a gradient


def _names_in_expression(value: ast.expr) -> list[str]:
    return [node.id for node in ast.walk(value) if isinstance(node, ast.Name)]


def returns_gradient_if_asked(definition: SourceFunction) -> bool:
    """Whether a parameter such as `return_grad=False` asks for a derivative beside the value: it is tested, for a tuple."""
    args = definition.node.args
    given = [*zip(reversed([*args.posonlyargs, *args.args]), reversed(args.defaults), strict=False)]
    given += [(a, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None]
    flags = (p.arg for p, d in given if isinstance(d, ast.Constant) and isinstance(d.value, bool))
    words = {flag: words_of_name(flag) for flag in flags}
    of_gradient = {flag for flag in words if any(kind_of_word(w) and w not in WEAK - {"scoreobs"} for w in words[flag])}
    asks = next((flag for flag in words if flag in of_gradient and words[flag][0] in _ASKS), None)
    tests = [n.test for n in _nodes_of_body(definition) if isinstance(n, ast.If | ast.IfExp | ast.While)]
    tested = any(isinstance(name, ast.Name) and name.id == asks for test in tests for name in ast.walk(test))
    return tested and any(isinstance(v, ast.Tuple | ast.IfExp) for v in returned_expressions(definition))


_ASKS = frozenset({
    "return", "returns", "eval", "compute", "calc", "with", "want", "need", "get", "give", "grad", "gradient",
    "jac", "jacobian", "hess", "deriv", "derivative",
})  # fmt: skip
