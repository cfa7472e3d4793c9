"""`PartWorker`: what runs on the nodes of a cluster. It knows nothing of the engine.

It answers with plain values, errors too: what a node of another version raises could not be read
here otherwise.
"""

import socket
from typing import Any

from gelgt.errors import GelgtError
from gelgt.inference.part_folder import part_folder
from gelgt.inference.part_scorer import PartScorer, Question
from gelgt.inference.plan import Plan, check_same

Answer = dict[str, Any]


def probe_name(token: str) -> str:
    """The file by which a worker sees that it has the driver's folder."""
    return f".probe-{token}.tmp"


class PartWorker:
    """Holds the model and the mapped graph of a question, and makes parts of its population."""

    def __init__(self) -> None:
        self.host = socket.gethostname()
        self.scorer: PartScorer | None = None
        self.folder = ""
        self.plan: Plan | None = None

    def open(self, question: Question, plan: dict[str, Any], folder: str, token: str) -> Answer:
        """Open the run and the source, and check that they are the driver's."""
        return self._answered(lambda: self._open(question, Plan(**plan), folder, token))

    def write(self, number: int) -> Answer:
        """Make a part; its commit record."""
        assert self.scorer is not None
        assert self.plan is not None
        scorer, folder, plan = self.scorer, self.folder, self.plan
        return self._answered(lambda: scorer.write(folder, plan, number).model_dump())

    def _open(self, question: Question, plan: Plan, folder: str, token: str) -> Answer:
        from gelgt import __version__

        if plan.version != __version__:
            raise GelgtError(
                "version_mismatch",
                f"It has gelgt {__version__}, the driver {plan.version}.",
                hint="Install the same version on every node.",
            )
        if part_folder(folder).read(probe_name(token)) is None:
            raise GelgtError(
                "not_shared",
                f"The folder {folder} there is not the driver's.",
                hint="Give a folder on storage that all nodes share, such as NFS, under one path, "
                "or a prefix in object storage.",
            )
        scorer = PartScorer(question)
        check_same(plan, scorer.plan(plan.shards), "Its worker differs")
        self.scorer, self.folder, self.plan = scorer, folder, plan
        return {}

    def _answered(self, call: Any) -> Answer:
        try:
            return {"host": self.host, "value": call()}
        except GelgtError as error:
            return {"host": self.host, "error": error.to_dict()}
        except OSError as error:
            message = f"{error.strerror or error}: {error.filename}."
            return {
                "host": self.host,
                "error": {"code": "cannot_use_file", "message": message, "hint": ""},
            }
