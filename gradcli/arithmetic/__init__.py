"""Ways to run the primitives."""

import gradcli.rules  # noqa: F401  (declares the primitives before anything runs them)
from gradcli.arithmetic import tape  # noqa: F401  (installs the fast operators of recorded values)
