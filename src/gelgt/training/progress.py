"""`Progress`: what a run tells whoever watches. The base class keeps quiet."""

from typing import Any


class Progress:
    """Told of phases, steps and epochs; a command line shows them, a test counts them."""

    def phase(self, name: str, facts: str = "") -> None:
        """A part of the work begins, or has found something out."""

    def step(self, epoch: int, step: int, steps: int, loss: float, seconds: float) -> None:
        """A training step is done."""

    def epoch(self, record: dict[str, Any], best_epoch: int) -> None:
        """An epoch is done and scored."""

    def member(self, number: int, count: int) -> None:
        """The next of several models is trained; the first is 1."""

    def retrain(self, number: int, count: int, epochs: int) -> None:
        """The next of several models is trained anew, for so many epochs; the first is 1."""

    def resumed(self, epoch: int, step: int) -> None:
        """Training goes on from a checkpoint."""

    def notice(self, text: str) -> None:
        """Something that the user should know."""
