"""`Progress`: the events of a training run, as calls. The base class ignores them."""

from collections.abc import Mapping, Sequence

from gelgt.runs.record import Epoch


class Progress:
    """Receives the events of a run; a command line shows them, a test counts them.

    Data comes as arguments; `facts` and the text of a notice are for people alone.
    """

    def phase(self, name: str, facts: str = "") -> None:
        """A phase of the run has ended; `facts` says what came of it."""

    def plan(self, name: str, seconds: float | None) -> None:
        """A phase begins, or a ``network``, that may take so many seconds; None for no limit."""

    def baselines(self, metric: str, scores: Mapping[str, float]) -> None:
        """The baselines are scored on validation: a score of the deciding metric for each."""

    def step(self, epoch: int, step: int, steps: int, loss: float, seconds: float) -> None:
        """A training step is done: the `step`-th of the `steps` of its epoch."""

    def epoch(self, record: Epoch, best_epoch: int, network: int = 1) -> None:
        """An epoch of a network is done and scored; `record` is what the run's record will say
        about it."""

    def member(self, number: int, count: int) -> None:
        """The next network of an ensemble is trained; the first is 1."""

    def retrain(self, number: int, count: int, epochs: int) -> None:
        """The next network is retrained, for so many epochs; the first is 1."""

    def side_by_side(
        self, networks: Sequence[int], count: int, limit: float | None, epochs: int | None = None
    ) -> None:
        """Some networks of so many are trained at once, for so many seconds at most, or are
        retrained for so many epochs; the first is 1."""

    def resumed(self, epoch: int, step: int, network: int = 1) -> None:
        """The training of a network resumes from a checkpoint, after so many epochs and steps of
        the next one."""

    def notice(self, text: str) -> None:
        """Something that the user should know."""


def score_facts(metric: str, scores: Mapping[str, float]) -> str:
    """What came of the baselines, in a line."""
    listed = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
    return f"validation {metric}: {listed}"


def seconds_left(
    epochs: int, epoch: int, step: int, steps: int, seconds: float, limit: float | None
) -> float:
    """Seconds until a network has taken all its epochs at the pace of its steps so far, or until
    its limit: no training takes longer, and early stopping may end it before.

    Example:
        >>> seconds_left(10, epoch=2, step=5, steps=10, seconds=30.0, limit=None)
        170.0
        >>> seconds_left(10, epoch=2, step=5, steps=10, seconds=30.0, limit=40.0)
        10.0
    """
    done = (epoch - 1) * steps + step
    left = seconds / done * (epochs * steps - done)
    return max(0.0, left if limit is None else min(left, limit - seconds))
