"""Programs: of a function that can do nothing else next time, the gradient as straight-line numpy code."""

import gradcli.primitives  # the table is there before a program names its rows

__all__ = ["gradcli"]
