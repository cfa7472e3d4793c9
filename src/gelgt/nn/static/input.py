"""`StaticInput`: a packed buffer on the device, read as tensors."""

import torch
from torch import Tensor

from gelgt.nn.static.shape import Shape


class StaticInput:
    """The parts of a packed batch, as tensors on its device, and the aggregates (B, F) of its
    seeds. What each part holds says `StaticBatch`'s packer (`nn/static/pack.py`).

    Attributes are views of the buffer, which every replay of a recorded graph reads anew. What has
    to be computed is a property, so that the computation is recorded too.
    """

    def __init__(self, shape: Shape, words: Tensor, history: Tensor | None = None) -> None:
        self.shape, self.history = shape, history
        parts = {name: words[part] for name, part in shape.parts.items()}
        self.seed_time, self.seed_key = (
            parts[name].view(torch.int64) for name in ("seed_time", "seed_key")
        )
        self.index, self.offsets = parts["index"], parts["offsets"]
        self.refined_offsets = parts["refined_offsets"]
        counts = parts["counts"]
        self.table_rows, self.num_rows, self.num_seeds = counts[:-2], counts[-2], counts[-1]
        self.table, self.hop, self.subgraph = parts["table"], parts["hop"], parts["subgraph"]
        self.age, self._has_time = parts["age"].view(torch.float32), parts["has_time"]
        self.source, self.used = parts["source"], parts["used"]
        self.used_starts, self.cells = parts["used_starts"], parts["cells"]
        self.starts, self.row, self.other = parts["starts"], parts["row"], parts["other"]
        self.run_start, self.run_end = parts["run_start"], parts["run_end"]
        self.reverse = parts["reverse"]
        # of a model that reads more (`Extras`)
        self.extras = {name: parts[name] for name in shape.extra_names}

    @property
    def has_time(self) -> Tensor:
        """(T,) which rows have a time."""
        return self._has_time.bool()

    @property
    def is_row(self) -> Tensor:
        """(T,) which rows are real."""
        return torch.arange(self.shape.rows, device=self.table.device) < self.num_rows

    @property
    def is_seed(self) -> Tensor:
        """(B,) which seeds are real."""
        return torch.arange(self.shape.seeds, device=self.table.device) < self.num_seeds

    @property
    def is_message(self) -> Tensor:
        """(S,) which messages are real."""
        return torch.arange(self.shape.messages, device=self.table.device) < self.starts[-1]
