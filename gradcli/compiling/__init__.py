"""Programs: functions and gradients that are traced once and written as straight-line code."""

import gradcli.rules  # the table is there before a program names its rows

__all__ = ["gradcli"]
