"""Which parameters of the language's functions are data: known without running the expression, or not taken at all."""

# Axes, shapes, sizes, orders and modes: where such an argument is written out, it is passed as it is.
STATIC = {
    "axis", "axes", "axis1", "axis2", "axisa", "axisb", "axisc", "shape", "newshape", "new_shape", "window_shape", "keepdims",
    "ddof", "ord", "k", "n", "N", "num", "offset", "repeats", "reps", "indices", "indices_or_sections", "source",
    "destination", "decimals", "subscripts", "approximate", "order", "to", "shift", "kth", "pad_width", "mode", "method",
    "side", "increasing", "rowvar", "bias", "ind", "obj", "edge_order", "endpoint", "indexing", "UPLO", "upper", "norm",
    "deg", "discont", "period", "full_matrices", "compute_uv", "rcond", "rtol", "atol", "tol",
    "include_initial", "nan", "posinf", "neginf", "equal_nan", "fweights", "sparse", "reduction", "log_input", "log_target",
    "num_groups", "num_classes", "is_causal", "normalized_shape", "correction", "unbiased", "training", "dim0", "dim1",
}  # fmt: skip
# The same, of parameters whose name means a value in other functions.
STATIC_OF = {
    ("cond", "p"), ("norm", "p"), ("normalize", "p"), ("pairwise_distance", "p"), ("triplet_margin_loss", "p"), ("dist", "p"),
    ("polyder", "m"), ("polyint", "m"), ("digitize", "right"), ("rollaxis", "start"), ("multigammaln", "d"),
    ("gaussian_nll_loss", "full"), ("tri", "M"),
    *((name, "q") for name in ("quantile", "percentile", "nanquantile", "nanpercentile")),
    *((name, "s") for name in ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2")),
}  # fmt: skip
# Values, although other functions have a size of that name.
VALUES_OF = {
    ("scaled_dot_product_attention", "k"),
    *((name, "bias") for name in ("linear", "layer_norm", "group_norm", "batch_norm", "instance_norm")),
}
# Those that may also be computed.
COMPUTED = {
    "indices", "shape", "n", "k", "num", "nan", "posinf", "neginf", "period", "discont", "fweights", "repeats", "N",
}  # fmt: skip
# Options about memory, types and further results, and those that no rule knows.
NOT_TAKEN = {
    "out", "dtype", "where", "like", "subok", "casting", "initial", "returned", "optimize", "device", "copy", "order",
    "hermitian", "kind", "stable", "sorter", "overwrite_input", "retstep", "return_index", "return_inverse", "return_counts",
    "sorted", "writeable", "cov", "full",
}  # fmt: skip
TAKEN_BY = {("gaussian_nll_loss", "full")}
KEYWORD_SPELLINGS = {"dim": "axis", "keepdim": "keepdims", "dims": "axis", "shifts": "shift"}


def is_static(function: str, parameter: str) -> bool:
    """Return whether an argument that is written out is data, and no value."""
    return (parameter in STATIC and (function, parameter) not in VALUES_OF) or (function, parameter) in STATIC_OF


def is_written_out(function: str, parameter: str) -> bool:
    """Return whether an argument must be data."""
    return is_static(function, parameter) and parameter not in COMPUTED


def not_taken(function: str, parameters: set[str]) -> set[str]:
    """Return those of the given parameters that a function does not take in an expression."""
    return {name for name in parameters & NOT_TAKEN if (function, name) not in TAKEN_BY}
