"""Calls checked against the signatures of the language's functions."""

from collections.abc import Callable, Sequence
from typing import Any

from gradcli.errors import BadExpression, Span
from gradcli.source.names import ALIASES, arity
from gradcli.source.parameters import not_taken


def positional(name: str, function: Callable[..., Any], count: int, keywords: Sequence[str], where: Span) -> list[str]:
    """Return the parameter name of each of `count` positional arguments of a call with these keywords.

    Raises  BadExpression for a call that does not fit the signature, and for options that an expression does not take.
    """
    signature = arity(function)
    if signature is None:
        return ["x"] * count
    try:
        bound = signature.bind(*range(count), **dict.fromkeys(keywords, -1))
    except TypeError as error:
        shown = ", ".join(p.name if p.default is p.empty else f"{p.name}=..." for p in signature.parameters.values())
        raise BadExpression(f"{name}: {error}", where=where, do=f"write {name}({shown})") from None
    refused = not_taken(ALIASES.get(name, name), set(bound.arguments))
    if refused:
        raise BadExpression(f"{name} takes no {min(refused)} here", where=where, do="leave it out")
    by_position: dict[int, str] = {}
    for parameter, value in bound.arguments.items():
        if isinstance(value, dict):
            raise BadExpression(f"{name} takes no {min(value)}", where=where, do="leave it out")
        for k in value if isinstance(value, tuple) else (value,):
            by_position[k] = parameter
    return [by_position[k] for k in range(count)]
