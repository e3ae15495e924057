"""Floor 2: the rule table. Importing it declares every primitive; numpy only."""

from gradcli.primitives import composites, elementwise, linalg, reductions, shaping, special

__all__ = ["composites", "elementwise", "linalg", "reductions", "shaping", "special"]
