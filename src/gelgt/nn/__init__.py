"""③ refinement, ④ GNN branch, ⑤ Gaussian attention, ⑥ fusion, and the encoders before them.

Shapes, here and in all modules:

    B   seeds of a batch              d   width of a token
    K   rows sampled for a seed       H   heads, d/H each
    M   rows kept by refinement       G   Gaussian kernels
    T   rows of all seeds, packed     E   edges
    N   rows of the longest seed      U   distinct rows of a batch
"""

from gelgt.config import GelGTConfig
from gelgt.nn.base import ModelContext, RelationalModel
from gelgt.nn.model import GelGTModel
from gelgt.nn.rows import ModelInput, RowFrames, collect_rows

__all__ = [
    "GelGTConfig",
    "GelGTModel",
    "ModelContext",
    "ModelInput",
    "RelationalModel",
    "RowFrames",
    "collect_rows",
]
