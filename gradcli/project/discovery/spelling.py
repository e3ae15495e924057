"""What the name of a function says: whether it is that of a derivative, of which kind, and of which function."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from gradcli.words import DerivativeKind

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
})  # fmt: skip
MAPS = frozenset({  # of a class: what else it may have a derivative of
    "call", "predict", "inverse", "transform", "forward", "eval", "evaluate",
})  # fmt: skip
STOP = frozenset({
    "make", "requires", "require", "zero", "no", "enable", "disable", "set", "clip", "check", "test", "tests",
    "has", "is", "use", "needs", "need", "apply", "update", "plot", "show", "print", "save", "load", "init",
    "initialize", "sync", "reduce", "accumulate", "norm", "norms", "step", "descent", "ascent", "boosting",
    "numerical", "numeric", "num", "numdiff", "approx", "approximate", "finite", "fd", "cs", "complex", "register",
    "with", "without", "allow", "retain", "detach", "hook", "samples", "residuals", "request", "confint", "params",
    "helper", "image", "color", "colour", "policy", "conjugate", "linear", "radial", "fit", "train", "checkpoint",
    "clipping", "scorer", "from", "opg", "stats", "statistic",
})  # fmt: skip
WEAK = frozenset({"score", "scoreobs", "prime", "der", "psi"})  # words that also mean other things
MEASURES = frozenset({  # of a gradient, not a gradient
    "norm", "norms", "max", "min", "abs", "mean", "len", "shape", "size",
})  # fmt: skip
NEUTRAL = frozenset({"get", "compute", "calc", "calculate", "eval", "evaluate", "of", "and", "the", "wrt", "by"})
_FORWARD = frozenset({"forward", "forwardpass", "fprop", "feedforward", "propagate", "forwardpropagation"})
_BACKWARD = frozenset({"backward", "backwardpass", "bprop", "backprop", "backpropagate", "backpropagation"})
_FUSED = re.compile(
    r"(?P<base>[a-z]\w*?)(?P<word>grad|hess|score|prime|jac|deriv)|(?P<word2>score|deriv|grad)(?P<rest>[a-z]+)"
)
_PART = re.compile(r"[A-Z]+(?![^\WA-Z\d_])|[A-Z]?[^\WA-Z\d_]+\d*|\d+")
_ORDER = re.compile(r"(deriv|der|prime|fprime|grad)(\d)")
_PRODUCT = frozenset({"prod", "product", "vec", "vector", "p"})


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read a name: the kind of derivative, and the word that says so.

    `plain` are the keys that its function has without the word, `swapped` those with a word for a value in its place.
    """

    kind: DerivativeKind
    word: str
    plain: tuple[str, ...]
    swapped: tuple[str, ...]
    bare: bool


@cache
def parts(name: str) -> tuple[str, ...]:
    """Return the words of a name: `lossGrad_obs` has loss, grad, obs."""
    return tuple(part.lower() for part in _PART.findall(name))


@cache
def key(name: str) -> str:
    """Return the name as names are compared: without underscores, and in lower case."""
    return name.replace("_", "").lower()


def kind_of(word: str) -> DerivativeKind | None:
    """Return the kind of derivative that a word says, or None: `deriv2` is a second derivative."""
    order = _ORDER.fullmatch(word)
    if order is not None:
        return "hess" if order[2] == "2" else "grad"
    return KINDS.get(word)


def stopped(name: str) -> bool:
    """Whether a word of the name says that it is no derivative by hand, as in `clip_grad` and `numerical_gradient`."""
    return not STOP.isdisjoint(parts(name))


def is_value(name: str) -> bool:
    """Whether the name is one that functions have of which derivatives are taken, such as `neg_loglike`."""
    return key(name) in VALUES or not VALUES.isdisjoint(parts(name)) or any(key(name).endswith(w) for w in _ENDINGS)


_ENDINGS = ("loglike", "loglik", "likelihood", "objective", "loss", "cost", "loglikeobs")


def is_only_value(name: str) -> bool:
    """Whether every word of the name says so: `objective_func`, `_nploglike`, but not `quantile_func`."""
    words = set(parts(name))
    return (words <= VALUES | _SIGNS and not words <= _SIGNS) or any(key(name).endswith(w) for w in _ENDINGS)


_SIGNS = frozenset({"neg", "negative", "minus", "log", "my", "total", "compute", "calc", "get", "np", "n"})


def is_likelihood(name: str) -> bool:
    """Whether the name is that of a function whose gradient is called its score."""
    return not LIKELIHOODS.isdisjoint((key(name), *parts(name))) or any(key(name).endswith(w) for w in _ENDINGS[:4])


def is_forward(name: str) -> bool:
    """Whether the name is that of a forward pass."""
    return key(name) in _FORWARD


def is_backward(name: str) -> bool:
    """Whether the name is that of a backward pass."""
    return key(name) in _BACKWARD


def of_value_and_gradient(name: str) -> bool:
    """Whether the name says that a value and its derivative are returned together: `loss_and_grad`."""
    words = parts(name)
    if "and" not in words:
        return False
    middle = words.index("and")
    before, after = words[:middle], words[middle + 1 :]
    return not VALUES.isdisjoint(before) and any(kind_of(word) for word in after)


def names_gradient(name: str) -> bool:
    """Whether a variable of this name holds a derivative."""
    words = parts(name)
    return any(kind_of(w) and w not in WEAK - {"score"} for w in words) and MEASURES.isdisjoint(words)


def keys(name: str) -> tuple[str, str]:
    """Return the two forms under which a function is found: without underscores, and its words between underscores."""
    return key(name), "_".join(("", *parts(name), ""))


@cache
def readings(name: str) -> tuple[Reading, ...]:
    """Return the ways to read a name as that of a derivative: none for `type`, one or two for `grad_focal`."""
    return tuple(_readings(name))


def _readings(name: str) -> Iterator[Reading]:
    words = parts(name)
    places = [k for k, word in enumerate(words) if kind_of(word)]
    if places:
        yield _with_word(words, places)
        return
    for k, word in enumerate(words):
        fused = _FUSED.fullmatch(word)
        if fused is not None:
            found = fused["word"] or fused["word2"]
            rest = fused["base"] or fused["rest"]
            yield _with_word((*words[:k], rest, found, *words[k + 1 :]), [k + 1])
    if words and len(key(name)) > 1 and key(name)[0] == "d" and name.strip("_").lower().startswith("d"):
        yield Reading("grad", "d", (key(name)[1:],), (), False)


def _with_word(words: tuple[str, ...], places: list[int]) -> Reading:
    first = places[0]
    kind, word = kind_of(words[first]) or "grad", words[first]
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
    return Reading("hvp" if product else kind, word, _once(direct), _once(swapped), not plain)


_SHORT = 4  # letters of a word that other words contain by chance


def _once(found: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for each in found if each))
