"""The names that numpy, torch and jax have for the functions in expressions: a table for each.

A row is a function's name, or a template with braces: {0}, {1} are the arguments and {args} all of them, {shape} those of
ones and zeros, {axis} the axis option, if any, and {along} its number, {before} and {after} how many zeros pad a vector,
{like} and {dtype} an input and its dtype. A function that needs another template without an axis has two more rows: `of a
vector` and `of a matrix`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Dialect:
    """A language of generated code: its table, and its few other settings.

    `imports` are import lines by the words that need them; `owned` are names that inputs must not have. If the functions of
    the dialect take arrays only, `plain` has those for Python's own numbers, and `array` makes an array of such a number.
    `dtype` is that of an array, `dtype_of_number` that of an input which may be a Python number. `places` is how a list in an
    index is written; `backward` says whether an index may have negative steps.
    """

    name: str
    imports: Mapping[str, str]
    owned: frozenset[str]
    rows: Mapping[str, str]
    size: str
    constants: str
    axis: str = "axis"
    dtype: str = ""
    dtype_of_number: str = ""
    array: str = ""
    plain: Mapping[str, str] = field(default_factory=dict)
    places: str = "{0}"
    backward: bool = True

    @property
    def title(self) -> str:
        """Its name in a sentence."""
        return self.name.upper() if len(self.name) == 1 else self.name


def named(form: str, words: str) -> dict[str, str]:
    """Return rows from a template, whose braces stand for each of the words."""
    return {word: form.format(word) for word in words.split()}


_SAME = (
    "sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh exp log log1p expm1 exp2 log2 log10 sqrt sign abs "
    "floor ceil trunc maximum minimum hypot arctan2 logaddexp heaviside sum mean outer diag trace einsum ones_like zeros_like"
)
_SPECIAL = "erf erfc gammaln digamma polygamma logit ndtr log_ndtr xlogy entr"
_MATH = "sin cos tan sinh cosh tanh exp log log1p expm1 log2 log10 sqrt floor ceil trunc hypot erf erfc"

NUMPY = Dialect(
    "numpy",
    {"np.": "import numpy as np", "special.": "from scipy import special", "linalg.": "from scipy import linalg"},
    frozenset({"np", "special", "linalg"}),
    named("np.{}", f"{_SAME} cbrt rint var")
    | named("special.{}", f"{_SPECIAL} softmax logsumexp log_expit gamma beta j0 j1 y0 y1 i0 i1 k0 k1 jv yv iv kv")
    | {
        "inv": "np.linalg.inv", "solve": "np.linalg.solve", "det": "np.linalg.det", "norm": "np.linalg.norm",
        "sigmoid": "special.expit", "relu": "np.maximum({0}, 0)", "softplus": "np.logaddexp(0, {0})",
        "compare": "np.float64({0})", "ones": "np.ones({shape})", "zeros": "np.zeros({shape})", "eye": "np.eye",
        "pad": "np.pad({0}, ({before}, {after}))", "prod": "np.prod", "cumsum": "np.cumsum", "flip": "np.flip",
        "tril": "np.tril", "triu": "np.triu", "max": "np.max", "min": "np.min", "cross": "np.cross",
        "roll": "np.roll", "sort": "np.sort", "arange": "np.arange",
        "eigvalsh": "np.linalg.eigvalsh", "eigenvectors": "np.linalg.eigh({0})[1]",
        "svdvals": "np.linalg.svd({0}, compute_uv=False)", "left_vectors": "np.linalg.svd({0}, full_matrices=False)[0]",
        "right_vectors": "np.linalg.svd({0}, full_matrices=False)[2].T", "cholesky": "np.linalg.cholesky",
        "pinv": "np.linalg.pinv", "expm": "linalg.expm", "sqrtm": "linalg.sqrtm", "logm": "linalg.logm",
        "expm_frechet": "linalg.expm_frechet({0}, {1}, compute_expm=False)",
        "mirrored": "(np.tril({0}) + np.tril({0}, -1).T)", "convolve": "np.convolve",
        "correlate": 'np.correlate({0}, {1}, "valid")',
    },
    "np.shape({0})[{1}]", "np.",
)  # fmt: skip

TORCH = Dialect(
    "torch",
    {"math.": "import math", "torch.": "import torch"},
    frozenset({"torch", "math", "abs", "max", "min", "float"}),
    named("torch.{}", _SAME)
    | named("torch.special.{}", _SPECIAL)
    | {
        "inv": "torch.linalg.inv", "solve": "torch.linalg.solve", "det": "torch.linalg.det", "norm": "torch.linalg.norm",
        "sigmoid": "torch.sigmoid", "relu": "torch.relu", "softplus": "torch.nn.functional.softplus({0}, threshold=40)",
        **{name: f"torch.special.bessel_{name}" for name in ("j0", "j1", "y0", "y1")},
        **named("torch.special.{}", "i0 i1"), "k0": "torch.special.modified_bessel_k0", "k1": "torch.special.modified_bessel_k1",
        "log_expit": "torch.nn.functional.logsigmoid", "rint": "torch.round",
        "cbrt": "torch.copysign(torch.abs({0})**(1/3), {0})",
        "var": "torch.var({0}, correction=0{axis})", "compare": "({0}).to({dtype})",
        "ones": "{like}.new_ones({args})", "zeros": "{like}.new_zeros({args})",
        "eye": "torch.eye({0}, dtype={dtype}, device={like}.device)",
        "pad": "torch.nn.functional.pad({0}, ({before}, {after}))", "softmax of a vector": "torch.softmax({0}, dim=0)",
        "prod": "torch.prod", "cumsum of a vector": "torch.cumsum({0}, dim=0)", "cumsum": "torch.cumsum",
        "flip of a vector": "torch.flip({0}, (0,))", "flip": "torch.flip({0}, ({along},))",
        "tril": "torch.tril", "triu": "torch.triu", "cross": "torch.linalg.cross",
        "roll of a vector": "torch.roll({0}, {1})", "roll": "torch.roll({0}, {1}, ({along},))", "sort": "torch.sort({0})[0]",
        "arange": "torch.arange({0}, device={like}.device)",
        "softmax": "torch.softmax", "softmax of a matrix": "torch.softmax(torch.flatten({0}), dim=0).view_as({0})",
        "logsumexp of a vector": "torch.logsumexp({0}, dim=0)", "logsumexp": "torch.logsumexp",
        "logsumexp of a matrix": "torch.logsumexp({0}, dim=(0, 1))",
        "max of a vector": "torch.max", "max of a matrix": "torch.max", "max": "torch.amax",
        "min of a vector": "torch.min", "min of a matrix": "torch.min", "min": "torch.amin",
        "eigvalsh": "torch.linalg.eigvalsh", "eigenvectors": "torch.linalg.eigh({0})[1]", "svdvals": "torch.linalg.svdvals",
        "left_vectors": "torch.linalg.svd({0}, full_matrices=False)[0]",
        "right_vectors": "torch.linalg.svd({0}, full_matrices=False)[2].T", "cholesky": "torch.linalg.cholesky",
        "mirrored": "(torch.tril({0}) + torch.tril({0}, -1).T)", "pinv": "torch.linalg.pinv", "expm": "torch.linalg.matrix_exp",
    },
    "{0}.shape[{1}]", "math.", "dim", "{like}.dtype", "{like}.dtype", "{like}.new_tensor({0})",
    named("math.{}", _MATH)
    | {"arcsin": "math.asin", "arccos": "math.acos", "arctan": "math.atan", "arctan2": "math.atan2", "gammaln": "math.lgamma"}
    | {"abs": "abs", "maximum": "max", "minimum": "min", "relu": "max({0}, 0)", "compare": "float({0})"},
    backward=False,
)  # fmt: skip

JAX = Dialect(
    "jax",
    {"jax.": "import jax", "jnp.": "import jax.numpy as jnp"},
    frozenset({"jax", "jnp"}),
    named("jnp.{}", f"{_SAME} cbrt rint var")
    | named("jax.scipy.special.{}", f"{_SPECIAL} logsumexp gamma beta i0 i1")
    | {
        "inv": "jnp.linalg.inv", "solve": "jnp.linalg.solve", "det": "jnp.linalg.det", "norm": "jnp.linalg.norm",
        "sigmoid": "jax.scipy.special.expit", "relu": "jax.nn.relu", "softplus": "jax.nn.softplus",
        "log_expit": "jax.nn.log_sigmoid",
        "compare": "jnp.asarray({0}, {dtype})", "ones": "jnp.ones({shape}, {dtype})", "zeros": "jnp.zeros({shape}, {dtype})",
        "eye": "jnp.eye({0}, dtype={dtype})", "pad": "jnp.pad({0}, ({before}, {after}))", "softmax": "jax.nn.softmax",
        "prod": "jnp.prod", "cumsum": "jnp.cumsum", "flip": "jnp.flip", "tril": "jnp.tril", "triu": "jnp.triu",
        "softmax of a vector": "jax.nn.softmax", "softmax of a matrix": "jax.nn.softmax({0}, axis=None)",
        "max": "jnp.max", "min": "jnp.min", "cross": "jnp.cross", "roll": "jnp.roll", "sort": "jnp.sort",
        "arange": "jnp.arange",
        "eigvalsh": "jnp.linalg.eigvalsh", "eigenvectors": "jnp.linalg.eigh({0})[1]",
        "svdvals": "jnp.linalg.svd({0}, compute_uv=False)", "left_vectors": "jnp.linalg.svd({0}, full_matrices=False)[0]",
        "right_vectors": "jnp.linalg.svd({0}, full_matrices=False)[2].T", "cholesky": "jnp.linalg.cholesky",
        "pinv": "jnp.linalg.pinv", "expm": "jax.scipy.linalg.expm", "sqrtm": "jax.scipy.linalg.sqrtm",
        "expm_frechet": "jax.scipy.linalg.expm_frechet({0}, {1}, compute_expm=False)",
        "mirrored": "(jnp.tril({0}) + jnp.tril({0}, -1).T)", "convolve": "jnp.convolve",
        "correlate": 'jnp.correlate({0}, {1}, mode="valid")',
    },
    "{0}.shape[{1}]", "jnp.", dtype="{like}.dtype", dtype_of_number="jnp.result_type({like})", array="jnp.asarray({0}, {dtype})",
    places="jnp.array({0})",
)  # fmt: skip

ARRAYS = (NUMPY, TORCH, JAX)


def imported(imports: Mapping[str, str], code: str) -> list[str]:
    """Return the lines that import what code needs."""
    return [line for word, line in imports.items() if re.search(rf"(?<![\w.]){re.escape(word)}", code)]
