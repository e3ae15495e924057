"""Kernels in torch as one writes them for training in bfloat16: right ones, less exact ones, and wrong ones by what their author missed."""

from tests.frameworks.corpus.kernel import NEEDS, Kernel
from tests.frameworks.corpus.kernels_attention import ATTENTION
from tests.frameworks.corpus.kernels_gates import GATES
from tests.frameworks.corpus.kernels_heads import HEADS
from tests.frameworks.corpus.kernels_indexing import INDEXING
from tests.frameworks.corpus.kernels_losses import LOSSES
from tests.frameworks.corpus.kernels_norms import NORMS
from tests.frameworks.corpus.kernels_products import PRODUCTS
from tests.frameworks.corpus.kernels_rows import ROWS

__all__ = ["KERNELS", "NEEDS", "Kernel"]

KERNELS: tuple[Kernel, ...] = (*ROWS, *NORMS, *LOSSES, *GATES, *ATTENTION, *HEADS, *INDEXING, *PRODUCTS)
