"""What the texts of a request mean: which name Python code, how names are compared, how a backward pass is usually called."""

import os
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

TARGET = re.compile(
    r"(?P<file>[^\n(]*\.py|[^\W\d][\w.]*)::?(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)"
    r"(?:(?P<made>\((?P<inside>.*)\))(?P<after>(?:\.[^\W\d]\w*)*))?",
    re.DOTALL,
)

ASSIGNMENT = re.compile(r"\s*(?:[^\W\d]\w*|\d+\.\w+)(?:\.\w+|\[\d+\])*\s*=(?!=)[^;\n]*")  # an argument NAME=VALUE


def is_python(text: str) -> bool:
    """Whether a target names Python code: `PATH.py:NAME`, `PATH.py:NAME(3, 5).METHOD`, `DOTTED.MODULE:NAME`, or a file alone."""
    stripped = text.strip()
    return TARGET.fullmatch(stripped) is not None or (stripped.endswith(".py") and "\n" not in stripped)


def is_folder(text: str) -> bool:
    """Whether a word names a folder: one that exists, or one that ends in a slash."""
    return bool(text.strip("/ ")) and (text.endswith("/") or os.path.isdir(text))  # noqa: PTH112 (never raises)


def names_python(text: str) -> bool:
    """Whether a target, a claim or a point may name Python code: it has a file or a module with a name after a colon."""
    return is_python(text) or ".py" in text


def has_several_targets(words: Sequence[str]) -> bool:
    """Whether the words of the command line name more than one target, or standard input."""
    return words[:1] == ["-"] or sum(k == 0 or not ASSIGNMENT.fullmatch(w) for k, w in enumerate(words)) > 1


def normalise_name(name: str) -> str:
    """Return a name in the form in which Python compares names (NFKC)."""
    return unicodedata.normalize("NFKC", name)


PASSES = (("forward", "backward"), ("fprop", "bprop"), ("forward_pass", "backward_pass"))  # the two methods of a layer
OUTPUTS = ("output", "outputs", "out", "y", "result", "activation", "activations")  # attributes of a layer
LOSSES = ("loss", "cost", "objective")  # methods of a network
GRADIENT_METHODS = ("gradient", "gradients", "grad", "grads")
_WORDS_OF_PASSES = (("forward", "backward"), ("fwd", "bwd"), ("fprop", "bprop"))  # among the words of a function's name


def output_of_pass(held: Any, returned: Any) -> Any:
    """Return the output of a forward pass: what it returned, else what its object keeps as such; None if there is none."""
    kept = {} if returned is not None else getattr(held, "__dict__", {})
    return next((kept[name] for name in OUTPUTS if kept.get(name) is not None), returned)


def backward_names(forward: str) -> list[str]:
    """Return the usual names of the backward pass: `conv_backward_naive` of `conv_forward_naive`, `relu_backward` of `relu`."""
    words = forward.split("_")
    found = [
        "_".join(b if word == a else word for word in words) for a, b in _WORDS_OF_PASSES if a in words and words != [a]
    ]
    return [*found, f"{forward}_backward", f"{forward}_bwd", f"backward_{forward}"]
