"""`gelgt demo`: prints the steps of `gelgt.demo.run` and what came of each."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gelgt.cli.options import JsonFlag
from gelgt.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from gelgt.demo.run import Demo, SamplePredictions
    from gelgt.explain import Explanation, WholeExplanation


def demo_command(
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Folder for the demo's files.")
    ] = Path("demo"),
    seed: Annotated[
        int,
        typer.Option(
            "--seed", metavar="N", help="Random seed of training; the shop is always the same."
        ),
    ] = 0,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="A small shop and three training steps: shows the steps, not what a trained "
            "model scores.",
        ),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Make a demo shop and predict on it, in minutes.

    The shop is a SQLite file with planted truths. The demo prints its schema, a task, its graph,
    scores beside baselines, what the model learned of the truths, predictions and a report, and
    for each step the command that repeats it."""
    from gelgt.demo.run import Demo

    result = run_demo(Demo(out, seed, quick), is_quiet=as_json)
    if as_json:
        print_json(result)
    if result["train"]["ended"] == "interrupted":
        raise typer.Exit(130)


def run_demo(demo: "Demo", is_quiet: bool) -> dict[str, Any]:
    """All steps, each printed unless quiet; gives what --json prints."""
    from gelgt.cli.task import task_json
    from gelgt.report import write_report

    start = time.perf_counter()
    shop = demo.write_shop()
    schema = demo.import_shop()
    if not is_quiet:
        _print_schema(demo, schema)
    task = demo.make_task()
    folder = task.save(overwrite=True)
    graph = demo.db.graph().describe()
    if not is_quiet:
        _print_task(demo, graph)
    run, result = _train(demo, is_quiet)
    sample = demo.predict(run)
    whole, why = demo.explain(run, sample)
    result["report"] = str(write_report(demo.run))  # now with what predictions rest on
    seconds = round(time.perf_counter() - start, 1)
    if not is_quiet:
        _print_learned(demo, whole)
        _print_predictions(demo, sample)
        _print_why(demo, why)
        say("", f"9. The report ({demo.commands['report']})", style="bold")
        say(f"   {result['report']}", "", f"done in {seconds:.0f} s; all files are in {demo.out}")
    return {
        "inspect": schema,
        "task": task_json(task) | {"out": str(folder)},
        "graph": graph,
        "oracle_roc_auc": shop.oracle_auc,
        "truths": shop.truths,
        "train": result,
        "predict": {
            "rows": len(sample.entities),
            "out": str(sample.path),
            "at": sample.at,
            "entities": sample.entities,
        },
        "explain": {"out": str(demo.out / "why.html"), "entity": why.entity, "at": why.at},
        "report": result["report"],
        "seconds": seconds,
    }


def _train(demo: "Demo", is_quiet: bool) -> tuple[Any, dict[str, Any]]:
    from gelgt.cli.progress import training_progress
    from gelgt.cli.report import finish
    from gelgt.cli.scores import print_run
    from gelgt.cli.train import train

    config, options = demo.training()
    if not is_quiet:
        say("", f"5. Training, beside baselines ({demo.commands['train']})", style="bold")
        say("   Ctrl-C ends it early and keeps the best weights so far.", "")
    with training_progress("data") as progress:
        run = train(demo.db, demo.task, demo.run, config, options, progress)
    result = finish(run, demo.run, progress.notices, with_report=True, is_quiet=True)
    if not is_quiet:
        oracle = {"oracle (the shop's true probabilities)": {"roc_auc": demo.shop.oracle_auc}}
        print_run(run.record, None, {name: {"test": scores} for name, scores in oracle.items()})
    return run, result


def _print_learned(demo: "Demo", whole: "WholeExplanation") -> None:
    from gelgt.demo.run import learned

    title = f"6. What was planted, and what deletion finds ({demo.commands['explain']})"
    say("", title, style="bold")
    for name, found in learned(whole).items():
        say("", f"   planted {name}: {demo.shop.truths[name]}", f"   found: {found}")


def _print_why(demo: "Demo", why: "Explanation") -> None:
    page = demo.out / "why.html"
    command = f"gelgt explain {demo.run} --entity {why.entity} --at {why.at[:10]} --out {page}"
    say("", f"8. Why ({command})", "", style="bold")
    say(f"   {why.what} is {why.prediction:.3f}, {why.base:.3f} where nothing is known")
    say(*(f"   {text}" for text in why.sentences))
    say("", f"written to {page}")


def _print_schema(demo: "Demo", schema: dict[str, Any]) -> None:
    from gelgt.cli.inspect import print_inspection

    truths = ", ".join(demo.shop.truths)
    say(f"1. A shop as a SQLite file: {demo.out / 'shop.db'}", style="bold")
    say(f"   with planted truths ({truths}); step 6 compares them with what deletion finds", "")
    say(f"2. Its schema ({demo.commands['import']}; {demo.commands['inspect']})", "", style="bold")
    print_inspection(schema)


def _print_task(demo: "Demo", graph: dict[str, Any]) -> None:
    from gelgt.cli.task import print_task

    say("", f"3. A task ({demo.commands['task']})", "", style="bold")
    print_task(demo.task)
    say("", "4. Its graph (gelgt.open(…).graph() in Python)", "", style="bold")
    print_graph(graph)


def _print_predictions(demo: "Demo", sample: "SamplePredictions") -> None:
    import math

    command = (
        f"gelgt predict {demo.run} --entities {','.join(map(str, sample.entities))} "
        f"--at {sample.at[:10]} --out {sample.path}"
    )
    say("", f"7. Predictions ({command})", "", style="bold")
    truth, rows = sample.truth, []
    for key, predicted, row in zip(sample.entities, sample.predicted, sample.rows):
        days = truth.days_since[row]
        last = "never" if math.isnan(days) else f"{days:.0f} days ago"
        numbers = (truth.satisfied[row], truth.probability[row], predicted)
        rows.append((str(key), last, *(f"{value:.{d}f}" for value, d in zip(numbers, (2, 3, 3)))))
    headers = ["customer", "last order", "satisfied", "true probability", "predicted"]
    print_table(headers, rows, right=[0, 2, 3, 4])
    say("", f"written to {sample.path}")


def print_graph(graph: dict[str, Any]) -> None:
    """Sizes of a graph, and of each of its relations."""
    say(
        f"{graph['nodes']:,} nodes, {graph['edges']:,} edges, {graph['first']} … {graph['last']}",
        style="bold",
    )
    most = f"at most {graph['max_degree']:,} (in {graph['max_degree_table']})"
    say(
        f"{graph['mean_degree']:.1f} neighbours on average, {most}; {graph['isolated']:,} rows "
        "have none",
        "",
    )
    rows = [
        (f"{r['table']}.{r['column']}", r["parent"], f"{r['edges']:,}") for r in graph["relations"]
    ]
    print_table(["foreign key", "to", "edges"], rows, right=[2])
