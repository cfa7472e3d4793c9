"""`gelgt demo`: the demo shop, from a SQLite file to schema, task and graph."""

import shutil
import time
from pathlib import Path
from typing import Any

from gelgt.cli.inspect import print_inspection
from gelgt.cli.output import print_table, say
from gelgt.cli.task import print_task, task_json


def run_demo(out: Path, quiet: bool = False) -> dict[str, Any]:
    """Make the shop under `out` and print each step with what it found."""
    from gelgt.schema.report import inspect
    from gelgt.sources import open
    from gelgt.testing import shop

    start = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    made = shop(out / "shop.db")
    project = out / "project"
    if (project / "manifest.yaml").is_file():
        shutil.rmtree(project)  # of an earlier demo
    if not quiet:
        say(f"1. A shop as a SQLite file: {made.path}", "", *(f"   planted {name}: {truth}" for name, truth in made.truths.items()), "")
        say("2. Its schema (gelgt inspect)", "")
    db = open(made.url, out=project)
    report = inspect(db)
    if not quiet:
        print_inspection(report)
        say("", f'3. A task (gelgt task {project} "{made.sentence}")', "")
    task = db.task(made.sentence, name="orders-soon", val=made.val_timestamp, test=made.test_timestamp)
    folder = task.save(overwrite=True)
    graph = db.graph().describe()
    if not quiet:
        print_task(task)
        say("", f"oracle ROC-AUC on the test rows, from the shop's own probabilities: {made.oracle_auc:.3f}", "", "4. Its graph", "")
        print_graph(graph)
        say("", f"done in {time.perf_counter() - start:.1f} s; everything lies in {out}")
    return {"inspect": report, "task": task_json(task) | {"out": str(folder)}, "graph": graph, "oracle_roc_auc": made.oracle_auc}


def print_graph(graph: dict[str, Any]) -> None:
    """Sizes of a graph, and of each of its relations."""
    say(f"{graph['nodes']:,} nodes, {graph['edges']:,} edges, {graph['first']} … {graph['last']}", style="bold")
    most = f"at most {graph['max_degree']:,} (in {graph['max_degree_table']})"
    say(f"{graph['mean_degree']:.1f} neighbours on average, {most}; {graph['isolated']:,} rows without any")
    say("")
    rows = [(f"{r['table']}.{r['column']}", r["parent"], f"{r['edges']:,}") for r in graph["relations"]]
    print_table(["foreign key", "to", "edges"], rows, right=[2])
