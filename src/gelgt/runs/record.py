"""`RunRecord`: what a run was made of, how it went, and what it scored. `metrics.json` holds it.

Training fills it once; everyone else reads it through these classes. A field without a default has
to be there, any other may be missing, and unknown ones are ignored, so that a report can be written
from a file that another program made. No torch is imported here.
"""

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gelgt.calibration import Coverage, ProbabilityMap
from gelgt.errors import GelgtError
from gelgt.schema.model import Finding
from gelgt.schema.severity import Severity

# of run folders: 2 renamed settings, 3 lists the history columns, 4 has others and a columns
# network, 5 mixes it with the others and centres targets by their median (CHANGELOG.md)
FORMAT = 5
Scores = dict[str, float | None]  # by metric
_Kind = TypeVar("_Kind", bound=BaseModel)


class Part(BaseModel):
    """Frozen; more keys than these are fine."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class TaskFacts(Part):
    """What is predicted, for whom, at which times."""

    name: str
    task_type: str
    entity_table: str = ""
    target: str | None = None
    sentence: str | None = None
    sql: str | None = None
    timedelta: str | None = None
    val_timestamp: str | None = None
    test_timestamp: str | None = None
    rows: dict[str, int] = {}
    classes: list[Any] = []


class DataFacts(Part):
    """The database that the run saw."""

    source: str = ""
    name: str = ""
    hash: str | None = None
    tables: dict[str, int] = {}
    nodes: int | None = None
    edges: int | None = None


class KernelSpan(Part):
    """μ and σ of one kernel at the end of an epoch."""

    centre_days: float
    width_days: float


class Epoch(Part):
    """One pass over the training seeds, or as many steps of it as the configuration allows."""

    epoch: int
    step: int | None = None
    seconds: float | None = None
    loss: float | None = None
    val: Scores = {}
    rate: float | None = None
    kernels: list[list[KernelSpan]] | None = None


class Member(Part):
    """One network of an ensemble."""

    best_epoch: int
    epochs: int
    validation: float | None = None
    averaged_epochs: list[int] = []


class TreeFacts(Part):
    """LightGBM beside the network."""

    share: float = Field(ge=0, le=1)
    rounds: list[int] = []


class HistoryColumn(Part):
    """A history column that the run reads, with its share of what a quick model gained from all;
    `is_code` where it numbers categories, which only the baseline reads."""

    name: str
    gain: float = 0.0
    is_code: bool = False


class HistoryFacts(Part):
    """The history columns that were chosen, and how many others were left out for which reason,
    judged on so many training rows."""

    columns: list[HistoryColumn] = []
    proposed: int = 0
    left_out: dict[str, int] = {}
    rows: int = 0

    @property
    def read(self) -> list[str]:
        """The names of the columns that networks and trees read."""
        return [column.name for column in self.columns if not column.is_code]


class FindingFacts(Part):
    """A finding about a table that the run reads (`schema/findings.py`).

    Attributes:
        is_accepted: Whether the user let it stay unanswered (`--accept`).
        share: Of a suspected leak, the share of the trees' gain that history columns have which
            read the column; None where nothing was measured.
    """

    code: str
    severity: Severity
    table: str
    column: str | None = None
    count: int | None = None
    message: str = ""
    repair: dict[str, Any] | None = None
    is_accepted: bool = False
    share: float | None = None

    @property
    def finding(self) -> Finding:
        """The finding without what the run knows of it."""
        return Finding(**self.model_dump(exclude={"is_accepted", "share"}))


class RankingFacts(Part):
    """What a recommendation chooses from.

    Attributes:
        table: The recommended table.
        k: Recommendations that are evaluated.
        size: Rows of the table.
        locality: For each path of foreign keys, the share of training labels that it reaches.
        popular: The share that is among what everyone has had lately.
        covered: The share that is among all candidates.
        repeats: The share that the entity has had before.
        prior: The windows of the order by everyone's links that is added to the networks' scores,
            0 for the newest link first; and its weight.
    """

    table: str
    k: int
    size: int = 0
    locality: dict[str, float] = {}
    popular: float = 0.0
    covered: float = 0.0
    repeats: float = 0.0
    prior: int = 0
    prior_weight: float = 0.0


class TimeFacts(Part):
    """The seconds that a run was given, and what it could not do in them, a sentence each."""

    limit: float | None = None
    cut_off: list[str] = []


class Retrained(Part):
    """What was learned once validation had chosen: ``all`` labels, or those ``known`` at the test
    time; for 0 epochs where networks over subgraphs have no share."""

    labels: str = "all"
    rows: int = 0
    epochs: int = 0


class RunRecord(Part):
    """metrics.json.

    Attributes:
        intervals: How prediction intervals do on test, by level; of a regression.
        probabilities: What is done to the probabilities of a model.
    """

    format: int = FORMAT
    run: str | None = None
    command: str | None = None
    model: str = "gelgt"
    preset: str | None = None
    seed: int | None = None
    regime: str | None = None
    horizon: str | None = None
    task: TaskFacts
    data: DataFacts = DataFacts()
    metric: str
    metrics: dict[str, Scores]
    parts: dict[str, dict[str, Scores]] = {}
    tree_share: float = Field(default=0.0, ge=0, le=1)
    baselines: dict[str, dict[str, Scores]] = {}
    baseline_labels: dict[str, int] = {}
    intervals: dict[str, Coverage] = {}
    probabilities: ProbabilityMap | None = None
    epochs: list[Epoch] = []
    best_epoch: int | None = None
    averaged_epochs: list[int] = []
    ended: str = ""
    members: list[Member] = []
    trees: TreeFacts | None = None
    history: HistoryFacts | None = None
    findings: list[FindingFacts] = []
    ranking: RankingFacts | None = None
    time: TimeFacts = TimeFacts()
    retrain: Retrained | None = None
    seconds: float | None = None
    training_seconds: float | None = None
    phases: dict[str, float] = {}
    parameters: int | None = None
    machine: dict[str, Any] = {}
    versions: dict[str, Any] = {}
    config: dict[str, Any] = {}
    key: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The content of metrics.json."""
        return self.model_dump(mode="json")


class Kernel(Part):
    """One Gaussian of the bias."""

    centre_days: float
    width_days: float
    weights: list[float] = []
    text: str | None = None


class LayerBias(Part):
    """The bias of one attention layer: `heads[h][i]` is the bias of head h at age `days[i]`."""

    layer: int | str
    kernels: list[Kernel] = []
    days: list[float] = []
    heads: list[list[float]] = []


class Attention(Part):
    """Shares of the seed's attention, and of the sampled rows, each summing to 1."""

    seeds: int | None = None
    by_table: dict[str, float] = {}
    by_hop: dict[str, float] = {}
    rows_by_table: dict[str, float] = {}
    rows_by_hop: dict[str, float] = {}


class Profile(Part):
    """profile.json."""

    bias: list[LayerBias] = []
    attention: Attention | None = None
    fusion: float | None = Field(default=None, ge=0, le=1)

    def strongest_kernels(self, limit: int | None = None) -> list[tuple[Kernel, float]]:
        """The kernels of all layers with their largest weight in any head, strongest first."""
        weighted = [
            (kernel, max(kernel.weights, key=abs))
            for layer in self.bias
            for kernel in layer.kernels
            if kernel.weights
        ]
        return sorted(weighted, key=lambda pair: -abs(pair[1]))[:limit]


_HINT = "The file was damaged or changed by hand: train again, or restore it."


def read_record(path: Path, kind: type[_Kind]) -> _Kind:
    """A file of a run as one of these classes.

    Raises:
        GelgtError: ``broken_run``: it is not readable, or does not fit.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise GelgtError("broken_run", f"{path} is not readable: {error}.", hint=_HINT) from None
    return parse_record(text, path, kind)


def parse_record(text: str, path: object, kind: type[_Kind]) -> _Kind:
    """The text of a file as one of these classes; see `read_record`."""
    hint = _HINT
    try:
        return kind.model_validate(json.loads(text))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the top level"
        raise GelgtError(
            "broken_run",
            f"{path} does not fit the format of a run at {where}: {first['msg']}.",
            hint=hint,
        ) from None
    except (ValueError, RecursionError) as error:
        raise GelgtError(
            "broken_run", f"{path} is not readable JSON: {error}.", hint=hint
        ) from None
