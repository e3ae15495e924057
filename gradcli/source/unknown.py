"""The error for a function that is not in the language: why it is not, or which one was meant."""

import numpy as np

from gradcli.core import bind
from gradcli.errors import BadExpression, Span
from gradcli.primitives.refused import MODULES
from gradcli.source.left_out import REASONS
from gradcli.source.names import FUNCTIONS, nearest
from gradcli.source.spellings import FUNCTION_NAMES

SCIPYS = {
    "comb": "write binom(n, k)", "factorial": "write gamma(n + 1)",
    "zeta": "write polygamma(n, x) for sums of 1/(k + x)**(n + 1)",
    "cdist": "write sqrt(sum((x[:, None] - y)**2, axis=-1))", "dropout": "it draws at random: multiply by a mask",
}  # fmt: skip


def unknown(dotted: str, where: Span, is_value: bool) -> BadExpression:
    """Return the error for a call of an unknown function; `is_value` if the name is one of the user's values."""
    name = dotted.rpartition(".")[2]
    if is_value:
        return BadExpression(
            f"unknown function '{dotted}'", where=where, do=f"'{name}' is a value; to multiply, write {name}*(...)"
        )
    left_out = REASONS.get(name)
    if left_out is not None:
        says = f"'{name}' is not part of the language: {left_out.why}"
        return BadExpression(says, where=where, do=left_out.do)
    numpys = next((f for module in MODULES.values() if (f := vars(module).get(name)) is not None), None)
    if isinstance(numpys, np.ufunc | type(np.sum) | type(len)) and numpys in bind.REASONS:
        why, do = bind.REASONS[numpys]
        return BadExpression(f"'{name}' is not part of the language: {why}", where=where, do=do)
    close = FUNCTION_NAMES.get(name) or nearest(name, FUNCTIONS)
    advice = SCIPYS.get(name) or (f"did you mean '{close}'?" if close else "gradcli ops lists the functions")
    return BadExpression(f"unknown function '{dotted}'", where=where, do=advice)
