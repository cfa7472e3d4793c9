"""What `gelgt demo` does: the shop, imported, given a task, trained on, predicted for.

    demo = Demo(Path("demo"))
    demo.write_shop(), demo.import_shop(), demo.make_task(), …

The steps come in the order of their methods. `demo.commands` names what a user would type for each.
"""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gelgt.demo.shop import Shop, Truth, shop
from gelgt.errors import GelgtError

if TYPE_CHECKING:
    from gelgt.presets import RunConfig
    from gelgt.runs.record import Profile
    from gelgt.sources import Database
    from gelgt.tasks import Task
    from gelgt.training import Options, Run

TASK = "orders-soon"
CUSTOMERS = 6  # whose predictions are shown beside the true probability
TIME_LIMIT = 240  # seconds: enough to find the truths, and the demo stays short
QUICK = {"train.epochs": 1, "train.steps_per_epoch": 3, "train.batch_size": 32, "train.ensemble": 1}


@dataclass(frozen=True)
class SamplePredictions:
    """Predictions for a few customers, beside what the shop itself knows about them.

    Attributes:
        at: The seed time.
        path: The file that they were written to.
        entities: (N,) keys of the customers, by rising true probability.
        predicted: (N,) probabilities.
        truth: What is true of all customers at that time.
        rows: (N,) places of the chosen customers in `truth`.
    """

    at: str
    path: Path
    entities: list[int]
    predicted: list[float]
    truth: Truth
    rows: list[int]


@dataclass
class Demo:
    """The demo in one folder; each method is a step and needs those before it.

    Attributes:
        out: The folder.
        seed: Of the training; the shop is always the same.
        is_quick: A small shop and three training steps, to see that everything works.
    """

    out: Path
    seed: int = 0
    is_quick: bool = False
    shop: Shop = field(init=False)
    db: "Database" = field(init=False)
    task: "Task" = field(init=False)

    def __post_init__(self) -> None:
        self.project, self.run = self.out / "project", self.out / "run"

    @property
    def commands(self) -> dict[str, str]:
        """For each step the command that repeats it."""
        splits = f"--val {self.shop.val_timestamp[:10]} --test {self.shop.test_timestamp[:10]}"
        return {
            "import": f"gelgt import {self.out / 'shop.db'} {self.project}",
            "inspect": f"gelgt inspect {self.project}",
            "task": f'gelgt task {self.project} "{self.shop.sentence}" --name {TASK} {splits}',
            "train": f"gelgt train {self.project} {TASK} --baseline-hops 2 "
            f"--time-limit {TIME_LIMIT}s --seed {self.seed} --out {self.run}",
            "report": f"gelgt report {self.run}",
        }

    def write_shop(self) -> Shop:
        """The shop as a SQLite file; what an earlier demo left in the folder is removed first.

        Raises:
            GelgtError: ``not_empty`` where the folder holds files of the user's that have the
                names of the demo's, ``run_busy`` while another demo is training.
        """
        self._remove_earlier()
        self.out.mkdir(parents=True, exist_ok=True)
        size = {"customers": 200, "days": 400} if self.is_quick else {}
        self.shop = shop(self.out / "shop.db", **size)
        return self.shop

    def import_shop(self) -> dict[str, Any]:
        """Imports the file into a project folder; gives what `gelgt inspect` says about it."""
        from gelgt.schema.report import inspect
        from gelgt.sources import open
        from gelgt.sources.address import address_of

        self.db = open(self.shop.url, out=self.project)
        self.db.source = address_of(self.project)
        return inspect(self.db)

    def make_task(self) -> "Task":
        """The shop's task, saved in the project folder."""
        splits = {"val": self.shop.val_timestamp, "test": self.shop.test_timestamp}
        self.task = self.db.task(self.shop.sentence, name=TASK, **splits)
        return self.task

    def training(self) -> "tuple[RunConfig, Options]":
        """The configuration and the options to train with."""
        from gelgt.presets import RunConfig
        from gelgt.training import Options

        settings = {"train.seed": self.seed, "train.time_limit": float(TIME_LIMIT)}
        config = RunConfig.of(
            "cpu", self.task.task_type, settings | (QUICK if self.is_quick else {})
        )
        return config, Options(baseline_hops=(1, 2), command=self.commands["train"])

    def predict(self, run: "Run") -> SamplePredictions:
        """Predictions for a few customers at the last test time, written to a file."""
        from gelgt.inference import Predictor

        at = self.shop.test_seed_times[-1]
        truth = self.shop.truth(at)
        order = np.argsort(truth.probability, kind="stable")
        rows = order[np.linspace(0, len(order) - 1, CUSTOMERS).astype(int)].tolist()
        entities = [int(truth.customer_ids[row]) for row in rows]
        path = self.out / "predictions.parquet"
        prediction = Predictor(run, self.db).predict(entities=entities, at=at)
        prediction.save(path)
        columns = (prediction.table.column(name).to_pylist() for name in ("id", "probability"))
        by_key = dict(zip(*columns))
        return SamplePredictions(at, path, entities, [by_key[key] for key in entities], truth, rows)

    def _remove_earlier(self) -> None:
        from gelgt.runs.claim import remove_run
        from gelgt.schema.manifest import MANIFEST, load_yaml

        project, database = self.project, self.out / "shop.db"
        is_import = (project / MANIFEST).is_file() and "format" in (
            load_yaml(project / MANIFEST).get("gelgt") or {}
        )
        if not is_import and (project.exists() or database.exists()):
            existing = project if project.exists() else database
            raise GelgtError(
                "not_empty",
                f"{existing} exists and is not from an earlier demo.",
                hint="Choose another --out, or move it away.",
            )
        remove_run(self.run)
        if is_import:
            shutil.rmtree(project)


def learned(profile: "Profile") -> dict[str, str]:
    """For each planted truth, what the profile of a trained run shows of it."""
    kernels = "; ".join(
        f"{kernel.text} (weight {weight:+.2f})" for kernel, weight in profile.strongest_kernels(3)
    )
    attention = profile.attention
    tables = {} if attention is None else attention.by_table
    rows = {} if attention is None else attention.rows_by_table

    def shares(*names: str) -> str:
        return ", ".join(
            f"{name} {tables[name]:.0%} of attention ({rows[name]:.0%} of the rows)"
            for name in names
            if name in tables
        )

    return {
        "repurchase_lag": f"the strongest kernels of the Gaussian bias: {kernels}",
        "two_hop_quality": shares("orders", "order_items", "products"),
        "noise": shares("page_pings", "visits", "support_tickets"),
    }
