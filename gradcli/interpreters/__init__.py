"""Floor 3: ways to run the primitives."""

import gradcli.primitives  # the table is there before anything runs it
from gradcli.interpreters import fast  # the tape's operators

__all__ = ["fast", "gradcli"]
