"""`gelgt demo`: the demo shop, from a SQLite file to a trained model, its scores, predictions and
report."""

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gelgt.cli import options as given
from gelgt.cli.output import print_json, print_table, say
from gelgt.errors import GelgtError

if TYPE_CHECKING:
    from gelgt.testing import Shop

TASK = "orders-soon"
CUSTOMERS = 6  # whose predictions are shown beside the truth
LIMIT = 150.0  # seconds of training: enough for the truths, and the whole demo stays within minutes
QUICK = {"train.epochs": 1, "train.steps_per_epoch": 3, "train.batch_size": 32, "train.ensemble": 1}


def demo_command(
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Folder for the demo's files.")
    ] = Path("demo"),
    seed: Annotated[
        int,
        typer.Option("--seed", metavar="N", help="Of the training; the shop is always the same."),
    ] = 0,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="A small shop and three steps of training: shows the way, not the scores.",
        ),
    ] = False,
    as_json: given.JsonFlag = False,
) -> None:
    """Make a demo shop and predict on it, in minutes.

    A shop with planted truths as a SQLite file, its schema, a task, its graph, training beside
    baselines, what the model found of the truths, predictions and a report. Each step says which
    command repeats it.
    """
    result = run_demo(out, seed, quick, is_quiet=as_json)
    if as_json:
        print_json(result)
    if result["train"]["ended"] == "interrupted":
        raise typer.Exit(130)


def run_demo(
    out: Path, seed: int = 0, quick: bool = False, is_quiet: bool = False
) -> dict[str, Any]:
    """Take the shop all the way under `out`; print each step with what it found unless quiet."""
    from gelgt.schema.report import inspect
    from gelgt.sources import open
    from gelgt.sources.address import address_of
    from gelgt.testing import shop

    begun = time.perf_counter()
    tell = _nothing if is_quiet else say
    project = out / "project"
    _remove_earlier(out)
    out.mkdir(parents=True, exist_ok=True)
    made = shop(out / "shop.db", customers=200, days=400) if quick else shop(out / "shop.db")
    tell(f"1. A shop as a SQLite file: {out / 'shop.db'}", style="bold")
    tell(
        f"   with planted truths ({', '.join(made.truths)}), which step 6 compares with what was "
        "learned",
        "",
    )
    tell(
        f"2. Its schema (gelgt import {out / 'shop.db'} {project}; gelgt inspect {project})",
        style="bold",
    )
    db = open(made.url, out=project)
    db.source = address_of(project)
    report = inspect(db)
    splits = f"--val {made.val_timestamp[:10]} --test {made.test_timestamp[:10]}"
    if not is_quiet:
        from gelgt.cli.inspect import print_inspection

        tell("")
        print_inspection(report)
    tell(
        "",
        f'3. A task (gelgt task {project} "{made.sentence}" --name {TASK} {splits})',
        style="bold",
    )
    task = db.task(made.sentence, name=TASK, val=made.val_timestamp, test=made.test_timestamp)
    folder = task.save(overwrite=True)
    graph = db.graph().describe()
    from gelgt.cli.task import print_task, task_json

    if not is_quiet:
        tell("")
        print_task(task)
        tell("", "4. Its graph (gelgt.open(…).graph() in Python)", style="bold")
        tell("")
        print_graph(graph)
    trained, result = _train(out / "run", db, task, made, seed, quick, is_quiet)
    predicted = _predict(out, trained, db, made, is_quiet)
    seconds = round(time.perf_counter() - begun, 1)
    tell("", f"8. The report (gelgt report {out / 'run'})", style="bold")
    tell(f"   {result['report']}", "", f"done in {seconds:.0f} s; everything lies in {out}")
    return {
        "inspect": report,
        "task": task_json(task) | {"out": str(folder)},
        "graph": graph,
        "oracle_roc_auc": made.oracle_auc,
        "truths": made.truths,
        "train": result,
        "predict": predicted,
        "report": result["report"],
        "seconds": seconds,
    }


def _remove_earlier(out: Path) -> None:
    """Remove what an earlier demo left; files of the user's own that only lie where the demo's
    would are kept.

    Raises:
        GelgtError: ``not_empty`` where there are such files, ``run_busy`` while another demo is
            training.
    """
    from gelgt.runs.claim import remove_run
    from gelgt.schema.manifest import MANIFEST, load_yaml

    project, database = out / "project", out / "shop.db"
    is_import = (project / MANIFEST).is_file() and "format" in (
        load_yaml(project / MANIFEST).get("gelgt") or {}
    )
    if not is_import and (project.exists() or database.exists()):
        there = project if project.exists() else database
        raise GelgtError(
            "not_empty",
            f"{there} is not of an earlier demo.",
            hint="Choose another --out, or move it away.",
        )
    remove_run(out / "run")
    if is_import:
        shutil.rmtree(project)


def _train(
    run: Path, db: Any, task: Any, made: "Shop", seed: int, quick: bool, is_quiet: bool
) -> tuple[Any, dict[str, Any]]:
    """Train beside the baselines and print the scores, the oracle's among them, and what was found
    of the truths."""
    from gelgt.cli.progress import training_progress
    from gelgt.cli.scores import print_run
    from gelgt.cli.train import finish, train
    from gelgt.presets import RunConfig
    from gelgt.runs.folder import read_json
    from gelgt.training import Options

    command = (
        f"gelgt train {run.parent / 'project'} {TASK} --baseline-hops 2 --time-limit 150s "
        f"--seed {seed} --out {run}"
    )
    if not is_quiet:
        say("", f"5. Training, beside baselines ({command})", style="bold")
        say("   Ctrl-C ends it early and keeps the best weights so far.", "")
    config = RunConfig.of(
        "cpu",
        task.task_type,
        {"train.seed": seed, "train.time_limit": LIMIT, **(QUICK if quick else {})},
    )
    with training_progress("data") as progress:
        trained = train(
            db, task, run, config, Options(baseline_hops=(1, 2), command=command), progress
        )
    result = finish(trained, run, progress.notices, with_report=True, is_quiet=True)
    if not is_quiet:
        shown = read_json(run / "profile.json")
        print_run(
            trained.record,
            {},
            {"oracle (the shop's own probabilities)": {"test": {"roc_auc": made.oracle_auc}}},
        )
        say("", "6. What was planted, and what was learned", style="bold")
        _print_truths(made, shown)
    return trained, result


def _print_truths(made: "Shop", shown: Mapping[str, Any]) -> None:
    """Each planted truth, and the part of the profile that answers to it."""
    from gelgt.cli.scores import strongest

    kernels = "; ".join(f"{k['text']} (weight {k['weight']:+.2f})" for k in strongest(shown))
    attention = shown.get("attention", {})
    tables, rows = attention.get("by_table", {}), attention.get("rows_by_table", {})
    share = {
        name: f"{name} {tables[name]:.0%} of attention ({rows[name]:.0%} of the rows)"
        for name in tables
    }
    learned = {
        "repurchase_lag": f"the strongest kernels of the Gaussian bias: {kernels}",
        "two_hop_quality": ", ".join(
            share[name] for name in ("orders", "order_items", "products") if name in share
        ),
        "noise": ", ".join(
            share[name] for name in ("page_pings", "visits", "support_tickets") if name in share
        ),
    }
    for name, truth in made.truths.items():
        say("", f"   planted {name}: {truth}", f"   learned: {learned.get(name, '–')}")


def _predict(out: Path, trained: Any, db: Any, made: "Shop", is_quiet: bool) -> dict[str, Any]:
    """Predict for a few customers at the last test time, beside the probability that the shop
    itself has for them."""
    import numpy as np

    from gelgt.inference import Predictor

    at = made.test_seed_times[-1]
    truth = made.truth(at)
    order = np.argsort(truth.probability, kind="stable")
    chosen = order[np.linspace(0, len(order) - 1, CUSTOMERS).astype(int)]
    entities = [int(truth.customer_ids[i]) for i in chosen]
    path = out / "predictions.parquet"
    prediction = Predictor(trained, db).predict(entities=entities, at=at)
    prediction.save(path)
    table = prediction.table
    if not is_quiet:
        command = (
            f"gelgt predict {out / 'run'} --entities {','.join(map(str, entities))} --at "
            f"{at[:10]} --out {path}"
        )
        say("", f"7. Predictions ({command})", style="bold")
        say("")
        found = dict(zip(table.column("id").to_pylist(), table.column("probability").to_pylist()))
        since = [
            "never" if np.isnan(days) else f"{days:.0f} days ago"
            for days in truth.days_since[chosen]
        ]
        rows = [
            (
                str(key),
                ago,
                f"{truth.satisfied[i]:.2f}",
                f"{truth.probability[i]:.3f}",
                f"{found[key]:.3f}",
            )
            for key, ago, i in zip(entities, since, chosen)
        ]
        print_table(
            ["customer", "last order", "satisfied", "true probability", "predicted"],
            rows,
            right=[0, 2, 3, 4],
        )
        say("", f"written to {path}")
    return {"rows": table.num_rows, "out": str(path), "at": at, "entities": entities}


def print_graph(graph: dict[str, Any]) -> None:
    """Sizes of a graph, and of each of its relations."""
    say(
        f"{graph['nodes']:,} nodes, {graph['edges']:,} edges, {graph['first']} … {graph['last']}",
        style="bold",
    )
    most = f"at most {graph['max_degree']:,} (in {graph['max_degree_table']})"
    say(
        f"{graph['mean_degree']:.1f} neighbours on average, {most}; {graph['isolated']:,} rows "
        "without any"
    )
    say("")
    rows = [
        (f"{r['table']}.{r['column']}", r["parent"], f"{r['edges']:,}") for r in graph["relations"]
    ]
    print_table(["foreign key", "to", "edges"], rows, right=[2])


def _nothing(*lines: str, style: str | None = None) -> None:
    pass
