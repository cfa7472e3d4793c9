"""`RecordedNetworks`: what one network or the mean of several puts out, by replay on CUDA.

All networks of an ensemble are one record: a batch is sampled, packed and sent once for all. What
they put out comes back some batches later, so that the host is always ahead of the device. Seeds
are shuffled, always in the same way: they mostly come by time, early ones have few rows and late
ones many, and batches that are all alike fill few shapes almost completely (docs/benchmarks.md).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from gelgt.nn import ModelInput, RelationalModel
from gelgt.nn.static.input import StaticInput
from gelgt.nn.static.pack import Packer, StaticBatch
from gelgt.nn.static.weights import LowWeights
from gelgt.sampling import Seeds
from gelgt.sampling.batch import SubgraphBatch
from gelgt.scoring.outbox import Outbox
from gelgt.scoring.replay import (
    Context,
    Replay,
    Work,
    low_precision,
    make_packer,
    one_for_all,
    side_by_side,
)
from gelgt.scoring.seed_data import SeedData

THREADS, PREFETCH = 8, 12  # a batch takes several times as long to sample and pack as to score
What = Literal["outputs", "each", "vectors"]


class RecordedNetworks:
    """Outputs, or seed vectors of the first network, for lists of seeds.

    Args:
        networks: Of one shape.
        data: What they read.
        precision: Autocast, or nothing.
        device: Where.
        what: ``outputs`` (the mean of all networks), ``each`` (the outputs of each) or ``vectors``
            (of the first).
    """

    def __init__(
        self,
        networks: Sequence[RelationalModel],
        data: SeedData,
        precision: Context,
        device: torch.device,
        what: What = "outputs",
    ) -> None:
        self.data, self.precision, self.device, self.what = data, precision, device, what
        low = low_precision(precision, device)
        first, *others = networks
        form = first.static_form(data.graph, data.sampling, data.features, data.hide)
        self.forms = [form, *(form.beside(network) for network in others)]
        self.weights = [LowWeights(network, low) for network in networks]
        works = [partial(self._output, number) for number in range(len(networks))]
        self.outputs, self.trial_outputs = side_by_side(works, device), one_for_all(works)
        self.replay = Replay(self._work, device, trial=self._trial)
        self.packer: Packer | None = None

    def __call__(
        self, seeds: Seeds, batch_size: int, eager: Callable[[ModelInput], Tensor]
    ) -> Tensor:
        """(S, outputs or d), or (S, networks, outputs), of seeds in their order, on the host;
        `eager` does what does not fit into any recorded shape."""
        loader = self.data.loader(seeds, batch_size, torch.Generator().manual_seed(0))
        packer = self.packer
        if packer is None or packer.shapes[0].seeds != batch_size:
            packer = make_packer(self.forms[0], self.data, loader, self._is_cuda)
            self.packer = packer
        with_features, history = loader.then, self.data.history(seeds)
        assert with_features is not None
        history = None if history is None else history.to(self.device)
        is_cramped = False

        def pack(batch: SubgraphBatch) -> StaticBatch | ModelInput:
            nonlocal is_cramped
            packed = packer(batch)
            if packed is not None:
                return packed
            is_cramped = True
            return with_features(batch)  # type: ignore[no-any-return]

        loader.then, loader.threads, loader.prefetch = pack, THREADS, PREFETCH
        for weights in self.weights:
            weights.convert()
        outbox = Outbox(len(seeds), batch_size, self.device)
        for batch in loader:
            if isinstance(batch, ModelInput):
                outbox.add(eager(batch))
            else:
                outbox.add(self.replay(batch, history=history)[: batch.seeds])
        shuffled = outbox.all()
        if (
            is_cramped
        ):  # these seeds have larger neighbourhoods than those that shapes were made for
            larger = make_packer(self.forms[0], self.data, loader, self._is_cuda)
            if larger.shapes[-1].rows > packer.shapes[-1].rows:
                packer.shapes += larger.shapes[-1:]
        results = torch.empty_like(shuffled)
        results[torch.from_numpy(loader.order(0))] = shuffled
        return results

    @property
    def _is_cuda(self) -> bool:
        return self.device.type == "cuda"

    def _work(self, inputs: StaticInput) -> Tensor:
        return self._joined(self.outputs, inputs)

    def _trial(self, inputs: StaticInput) -> Tensor:
        return self._joined(self.trial_outputs, inputs)

    @torch.no_grad()
    def _joined(self, outputs: Work, inputs: StaticInput) -> Tensor:
        if self.what == "vectors":
            with self.precision(), self.weights[0].swapped():
                return self.forms[0].seed_vectors(inputs).float()
        outs = outputs(inputs)  # (networks, B, outputs)
        return outs.mean(0) if self.what == "outputs" else outs.transpose(0, 1)

    def _output(self, number: int, inputs: StaticInput) -> Tensor:
        with self.precision(), self.weights[number].swapped():
            return self.forms[number](inputs).float()
