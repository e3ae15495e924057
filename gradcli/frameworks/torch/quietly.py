"""What torch warns of because of gradcli alone: plain torch would not, and nothing of the user's is the cause."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch._decomp import (
        decomposition_table as decomposition_table,
    )  # it scripts its functions, which is deprecated
    from torch._decomp import decompositions_for_jvp as _for_jvp  # noqa: F401  as the forward mode does when first used
