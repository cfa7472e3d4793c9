"""`Scorer`: the only place that turns seeds into predictions, seed vectors or attention.

It works for one network, the mean of several, and trees beside them; on a CPU batches run side by
side, on CUDA they are recorded graphs where the networks have a form of fixed shapes. The
same question gives the same bits; who else is predicted for in the same batch may change the last
ones (about 1e-7).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.calibration import ProbabilityMap
from gelgt.errors import GelgtError
from gelgt.meter import Work
from gelgt.nn import ModelInput, RelationalModel
from gelgt.nn.ensemble import Ensemble
from gelgt.nn.static.shape import PLAIN
from gelgt.sampling import Seeds
from gelgt.scoring.lanes import Lanes
from gelgt.scoring.memory import release_memory
from gelgt.scoring.parts import CALIBRATION, COLUMNS, NETWORK, TREES, Parts, decoded
from gelgt.scoring.recorded import RecordedNetworks, What
from gelgt.scoring.replay import why_not_recorded
from gelgt.scoring.seed_data import SeedData
from gelgt.scoring.variants import RecordedVariants

BATCH = 128  # seeds of a pass on a CPU: larger ones are no faster there, and need more memory
CUDA_BATCH = 512
LANES = 2  # batches side by side on a CPU; never one, whose sums PyTorch could split otherwise
HISTORIES = 64  # history columns of a pass: what is made of them stays in a core's cache
RELEASE = 8  # batches on a CPU after which freed memory goes back to the system
FEW_VARIANTS = 4_096  # of seeds, of all calls so far, for which recording is not worth its seconds
FEW = 32_768  # seeds, of all calls so far, for which recording is not worth its seconds


class Scorer:
    """Scores seeds.

    Args:
        model: One network, or several with or without trees; it is put into evaluation mode.
        data: What the networks read, and how outputs become predictions.
        device: Where the networks are.
        precision: ``auto`` is bf16 on CUDA, float32 elsewhere.
        batch_size: Seeds of one pass; what suits the device if None.
        probabilities: What is done to the probabilities of the whole model; nothing if None.
        is_recorded: Whether CUDA graphs are used where that is possible; None: once there are many
            seeds.
    """

    def __init__(
        self,
        model: RelationalModel | Ensemble,
        data: SeedData,
        device: torch.device | str = "cpu",
        *,
        precision: str = "auto",
        batch_size: int | None = None,
        probabilities: ProbabilityMap | None = None,
        is_recorded: bool | None = None,
    ) -> None:
        self.model, self.data, self.device = Ensemble.of(model), data, torch.device(device)
        self.precision, self.is_recorded = precision, is_recorded
        self.batch_size = batch_size or (CUDA_BATCH if self.device.type == "cuda" else BATCH)
        self.networks, self.trees = self.model.networks, self.model.trees
        self.share, self.graph = float(self.model.share), float(self.model.graph)
        self.probabilities = probabilities or ProbabilityMap()
        self._recorded: dict[What, RecordedNetworks] = {}
        self._scored = 0
        self._variants: RecordedVariants | None = None
        self._asked, self._is_unrecorded = 0, False

    # Seeds in.
    def predict(self, seeds: Seeds) -> Parts:
        """Predictions, in the order of the seeds; the base rate for entities that do not exist yet
        at their seed time."""
        there = seeds.take(np.flatnonzero(self.data.exists(seeds)))
        columns = self.columns(there)
        outputs = {NETWORK: self._network(there, columns)}
        if columns is not None:
            outputs[COLUMNS] = columns
        if self.trees is not None:
            outputs[TREES] = tree_outputs(self.trees, self.data, there)
        parts = decoded(self.data, seeds, outputs, self.share)
        return replace(parts, together=self.probabilities(parts.together))

    def predict_each(self, seeds: Seeds) -> list[NDArray[Any]]:
        """What each network over subgraphs predicts by itself, in the order of the seeds."""
        there = seeds.take(np.flatnonzero(self.data.exists(seeds)))
        outputs = (
            self._run(there, "each", self._each)
            if len(there)
            else torch.zeros(0, len(self.networks), self.data.target.outputs)
        )
        return [
            decoded(self.data, seeds, {NETWORK: of_network}, 0.0).together
            for of_network in outputs.unbind(1)
        ]

    def outputs(self, seeds: Seeds) -> Tensor:
        """(S, outputs) logits or standardised values of the network for seeds that exist, on the
        host: those of the columns network, if there is one, and of the networks over subgraphs."""
        return self._network(seeds, self.columns(seeds))

    def _network(self, seeds: Seeds, columns: Tensor | None) -> Tensor:
        """The same, given what the columns network puts out."""
        if not len(seeds):
            return torch.zeros(0, self.data.target.outputs)
        if columns is None:
            return self._run(seeds, "outputs", self._outputs)
        if not self.graph:
            return columns
        graph = self._run(seeds, "outputs", self._outputs)
        return (1 - self.graph) * columns + self.graph * graph

    def columns(self, seeds: Seeds) -> Tensor | None:
        """(S, outputs) what the columns network puts out for seeds that exist; None without one."""
        if self.model.columns is None:
            return None
        return self.model.columns.outputs(self.data.columns_of(seeds))

    def vectors(self, seeds: Seeds) -> Tensor:
        """(S, d) seed vectors of the first network: those of two networks have no common axes."""
        if not len(seeds):
            return torch.zeros(0, self.networks[0].config.width)
        return self._run(seeds, "vectors", self._vectors)

    def attention(self, seeds: Seeds) -> Iterator[tuple[Any, Tensor]]:
        """For each batch the rows that the first network's attention sees, and (T,) shares of the
        seed's attention, which sum to 1 for each seed."""
        network = self.networks[0]
        network.eval()
        for inputs in self.data.loader(seeds, self.batch_size):
            yield network.seed_attention(inputs.to(self.device))

    def score_subgraphs(self, batches: Iterable[ModelInput]) -> Tensor:
        """Raw outputs of the networks, (S, outputs) on the host, for batches that were not sampled
        here: seeds as they would be without some of their rows."""
        self._evaluate()
        with Lanes(LANES if self.device.type == "cpu" else 1) as lanes:
            return torch.cat(list(lanes.map(self._outputs, batches)))

    def score_histories(self, history: Tensor) -> dict[str, Tensor]:
        """Raw outputs (S, outputs), on the host, of the parts that read nothing but history columns
        (S, F)."""
        self._evaluate()
        is_cpu = self.device.type == "cpu"
        rows = torch.split(history, HISTORIES if is_cpu else max(1, len(history)))
        with Lanes(LANES if is_cpu else 1) as lanes:
            made = list(lanes.map(self._of_histories, rows))
        return {name: torch.cat([part[name] for part in made]) for name in made[0]}

    @torch.inference_mode()
    def _of_histories(self, history: Tensor) -> dict[str, Tensor]:
        parts: dict[str, Tensor] = {}
        if self.model.columns is not None:
            # without the filler rows that make the bits of `outputs` independent of their number
            parts[COLUMNS] = self.model.columns(history.to(self.device).float()).float().cpu()
        if self.trees is not None:
            parts[TREES] = outputs_of_trees(self.trees, history)
        return parts

    def recorded_variants(self, count: int) -> RecordedVariants | None:
        """What scores variants by replay; None where that cannot be, or is not worth it.

        Args:
            count: Variants that are scored next.
        """
        self._asked += count
        if self._variants is None and not self._is_unrecorded:
            is_worth_it = self._asked >= FEW_VARIANTS if self.is_recorded is None else False
            if not (self.is_recorded or is_worth_it):
                return None
            if any(why_not_recorded(n, self.data, self.device) for n in self.networks) or (
                # shapes of variants have room for rows and messages alone
                self.networks[0].extras(self.data.graph) != PLAIN
            ):
                self._is_unrecorded = True
                return None
            self._evaluate()
            precision = partial(autocast, self.precision, self.device)
            self._variants = RecordedVariants(self.model, self.data, precision, self.device)
        return self._variants

    def attention_of(self, inputs: ModelInput) -> tuple[Any, Tensor]:
        """The same as `attention` for one batch that was not sampled here."""
        self._evaluate()
        with Lanes(LANES if self.device.type == "cpu" else 1) as lanes:
            return next(lanes.map(self.networks[0].seed_attention, [inputs.to(self.device)]))

    @property
    def is_heard(self) -> bool:
        """Whether the networks have a share in what the model predicts."""
        return self.model.columns is None or bool(self.graph)

    @property
    def reads_history(self) -> bool:
        """Whether the networks read history columns themselves: there is no columns network."""
        return any(network.history is not None for network in self.networks)

    def _evaluate(self) -> None:
        """Put the model into evaluation mode, which takes milliseconds, where it is not."""
        if any(module.training for module in (self.model, *self.networks)):
            self.model.eval()

    def mixed(self, parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What each part of `score_subgraphs` and `score_histories` adds to the raw output of the
        model, (S, outputs); the prediction is their sum, decoded. A map of probabilities is a slope
        of the raw output, and a shift, which is a part of its own."""
        share, map_ = self.share if TREES in parts else 0.0, self.probabilities
        shares = {NETWORK: 1 - share, COLUMNS: 1 - share, TREES: share}
        if COLUMNS in parts:
            shares[NETWORK] *= self.graph
            shares[COLUMNS] *= 1 - self.graph
        mixed = {name: map_.slope * shares[name] * raw for name, raw in parts.items()}
        if map_.shift:
            mixed[CALIBRATION] = torch.full_like(next(iter(mixed.values())), map_.shift)
        return mixed

    # One batch.
    @torch.inference_mode()
    def _outputs(self, inputs: ModelInput) -> Tensor:
        outs = self._each(inputs)
        return outs.mean(1) if outs.shape[1] > 1 else outs[:, 0]

    @torch.inference_mode()
    def _each(self, inputs: ModelInput) -> Tensor:
        inputs = inputs.to(self.device)
        with autocast(self.precision, self.device):
            outs = [network(inputs).float() for network in self.networks]
        return torch.stack(outs, dim=1).cpu()

    @torch.inference_mode()
    def _vectors(self, inputs: ModelInput) -> Tensor:
        with autocast(self.precision, self.device):
            return self.networks[0].seed_vectors(inputs.to(self.device)).float().cpu()

    def _run(self, seeds: Seeds, what: What, work: Callable[[ModelInput], Tensor]) -> Tensor:
        self.model.eval()
        self._scored += len(seeds)
        recorded = self._record(what)
        if recorded is not None:
            return recorded(seeds, self.batch_size, work)
        parts: list[Tensor] = []
        work_done = Work("scoring", len(seeds), "seeds")
        is_cpu = self.device.type == "cpu"
        with Lanes(LANES if is_cpu else 1) as lanes:
            for out in lanes.map(work, self.data.loader(seeds, self.batch_size)):
                parts.append(out)
                work_done(len(out))
                if is_cpu and len(parts) % RELEASE == 0:
                    release_memory()
        return torch.cat(parts)

    def _record(self, what: What) -> RecordedNetworks | None:
        """Recorded networks; None where they cannot be, or are not worth it."""
        if what not in self._recorded:
            is_worth_it = self._scored >= FEW if self.is_recorded is None else self.is_recorded
            if not is_worth_it:
                return None
            networks = self.networks[:1] if what == "vectors" else self.networks
            if any(why_not_recorded(n, self.data, self.device) for n in networks):
                return None
            precision = partial(autocast, self.precision, self.device)
            self._recorded[what] = RecordedNetworks(
                networks, self.data, precision, self.device, what
            )
        return self._recorded[what]


def tree_outputs(trees: torch.nn.Module, data: SeedData, seeds: Seeds) -> Tensor:
    """(S, outputs) raw outputs of trees for seeds that exist, on the host."""
    columns = data.history(seeds)
    assert columns is not None  # trees are grown on nothing else
    return outputs_of_trees(trees, columns)


def outputs_of_trees(trees: torch.nn.Module, columns: Tensor) -> Tensor:
    """(S, outputs) raw outputs of trees for the columns (S, F) of some seeds, on the host."""
    place = next(trees.buffers()).device
    with torch.inference_mode():
        outputs: Tensor = trees(columns.to(place)).float().cpu()
    return outputs


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """bf16 where it is asked for."""
    if precision == "bfloat16" or (precision == "auto" and device.type == "cuda"):
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


def choose_device(name: str) -> torch.device:
    """The device that a name means; `auto` takes CUDA where it is.

    Raises:
        GelgtError: there is no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise GelgtError(
            "no_device", f"There is no device '{name}'.", hint="Use auto, cpu or cuda."
        ) from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise GelgtError("no_device", "There is no CUDA device here.", hint="Use --device cpu.")
    return device
