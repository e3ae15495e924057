"""Floor 3: ways to run the primitives."""

import gradcli.primitives  # the table is there before anything runs it

__all__ = ["gradcli"]
