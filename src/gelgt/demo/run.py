"""What `gelgt demo` does: the shop, imported, given a task, trained on, predicted for.

    demo = Demo(Path("demo"))
    demo.write_shop(), demo.import_shop(), demo.make_task(), …

The steps come in the order of their methods. `demo.commands` names what a user would type for each.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gelgt.demo.shop import Shop, Truth, shop
from gelgt.errors import GelgtError

if TYPE_CHECKING:
    from gelgt.explain import Explanation, WholeExplanation
    from gelgt.explain.whole import Importance
    from gelgt.presets import RunConfig
    from gelgt.sources import Database
    from gelgt.tasks import Task
    from gelgt.training import Options, Run

TASK = "orders-soon"
CUSTOMERS = 6  # whose predictions are shown beside the true probability
SAMPLE, QUICK_SAMPLE = 60, 8  # customers over whom the model is explained
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
            "explain": f"gelgt explain {self.run}",
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

    def explain(
        self, run: "Run", sample: SamplePredictions
    ) -> "tuple[WholeExplanation, Explanation]":
        """What the model rests on, kept in the run folder for its report, and why one customer is
        predicted what they are: the one with the highest prediction."""
        from gelgt.explain import Explainer, explain_whole
        from gelgt.inference import Predictor
        from gelgt.report.sections.explanation import FILE

        explainer = Explainer(Predictor(run, self.db))
        whole = explain_whole(explainer, sample=QUICK_SAMPLE if self.is_quick else SAMPLE)
        whole.save(self.run / FILE)
        best = sample.entities[int(np.argmax(sample.predicted))]
        why = explainer.explain(best, sample.at)
        why.save(self.out / "why.html")
        return whole, why

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


def learned(whole: "WholeExplanation") -> dict[str, str]:
    """For each planted truth, what deletion shows of it in a trained run."""
    ages = [entry for entry in whole.ages.get("orders", ()) if entry.share > 0]
    lines = [entry for entry in whole.ages.get("order_items", ()) if entry.share > 0]
    by_name = {entry.name: entry.importance for entry in whole.tables}
    columns = {entry.name: entry.importance for entry in whole.columns}
    quality = columns.pop("products.quality", 0.0)
    other = max(columns.items(), key=lambda item: item[1], default=("none", 0.0))
    path = next((e for e in whole.paths if e.name.endswith("order_items → products")), None)
    return {
        "repurchase_lag": "; ".join(
            f"{name} {_turn(entries)}" for name, entries in (("orders", ages), ("items", lines))
        ),
        "two_hop_quality": f"without products.quality the probability changes by {quality:.3f}, "
        f"without the next column ({other[0]}) by {other[1]:.3f}, without customers → "
        f"order_items → products by {0.0 if path is None else path.importance:.3f}",
        "noise": ", ".join(
            f"{name} {by_name.get(name, 0.0):.3f}"
            for name in ("page_pings", "visits", "support_tickets", "order_items")
        ),
    }


def _turn(entries: "Sequence[Importance]") -> str:
    """Which ages raise and lower the probability most, where there are such rows."""
    if not entries:
        return "have no age"
    most = max(entries, key=lambda e: e.effect / e.share)
    least = min(entries, key=lambda e: e.effect / e.share)
    return (
        f"of {most.name} raise the probability most ({most.effect / most.share:+.2f} where there "
        f"are any), of {least.name} least ({least.effect / least.share:+.2f})"
    )
