"""Imports of torch internals that warn when they are imported; the warnings are hidden, because gradcli causes them."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch._decomp import decomposition_table as decomposition_table  # it uses torch.jit, which is deprecated
    from torch._decomp import decompositions_for_jvp as _for_jvp  # noqa: F401  else the forward mode imports it, and warns
