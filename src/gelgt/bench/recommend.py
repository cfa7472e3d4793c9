"""`gelgt bench recommend`: candidates, training steps and the best rows of a large table.

On a generated database (`gelgt.testing.links`): microseconds to find the candidates of a seed,
beside the same walk in pure Python; seconds of a training step; and the first k of all
destinations for some users, with the peak memory of the process.
"""

import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gelgt.bench.machine import machine
from gelgt.candidates import CandidateFinder
from gelgt.sampling import Seeds

SETTINGS = {
    "train.epochs": 1,
    "train.ensemble": 1,
    "train.windows": 1,
    "train.time_limit": None,
    "train.retrain": False,
    "train.eval_rows": 128,
}
WALKED = 2_000  # seeds whose candidates are timed
IN_PYTHON = 50  # and of these in Python
LABELS = 10_000


def bench_recommend(
    destinations: int = 1_000_000,
    links: int = 10_000_000,
    *,
    users: int = 10_000,
    k: int = 100,
    steps: int = 20,
    folder: Path | None = None,
    device: str = "auto",
    progress: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Measure recommendations.

    Args:
        destinations: Rows of the recommended table.
        links: Rows that tie users to them.
        users: For whom the first `k` are ranked.
        steps: Training steps that are timed.
        folder: For the files; a temporary one if None.
    """
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary) if folder is None else folder
        return _measure(place, destinations, links, users, k, steps, device, progress)


def _measure(
    place: Path,
    destinations: int,
    links: int,
    users: int,
    k: int,
    steps: int,
    device: str,
    say: Callable[[str], None],
) -> dict[str, Any]:
    from gelgt.presets import RunConfig
    from gelgt.scoring.recommend import RecommendScorer, Wish
    from gelgt.scoring.scorer import choose_device
    from gelgt.sources import open
    from gelgt.testing.links import SENTENCE, write_links
    from gelgt.training.fit import Trainer
    from gelgt.training.model import make_model
    from gelgt.training.recommend import RecommendData
    from gelgt.training.regime import in_regime

    on, results = choose_device(device), list[dict[str, Any]]()

    def timed(what: str, unit: str, count: int, work: Callable[[], Any]) -> Any:
        say(what)
        began = time.perf_counter()
        made = work()
        seconds = time.perf_counter() - began
        results.append(
            {
                "what": what,
                "seconds": round(seconds, 3),
                "count": count,
                "unit": unit,
                "microseconds_each": round(1e6 * seconds / max(count, 1), 1),
                "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }
        )
        return made

    source = timed("write", "links", links, lambda: write_links(place / "db", destinations, links))
    db = timed("import", "links", links, lambda: open(source))
    timed("graph", "links", links, db.graph)
    task = timed(
        "labels", "labels", LABELS, lambda: db.task(SENTENCE, max_rows=LABELS, eval_timestamps=1)
    )
    config = RunConfig.of("cpu", task.task_type, {**SETTINGS, "train.steps_per_epoch": steps})
    config = in_regime(config, task, "seed-time").with_values("derived", model__history=0)
    data = timed("columns", "labels", LABELS, lambda: RecommendData.of(db, task, config))
    finder, seeds = data.destinations.finder, data.seeds["test"]  # those with the longest past
    few = seeds.take(np.arange(min(WALKED, len(seeds))))
    finder.find(few.take(np.arange(1)))  # compiles, and reads the links
    finder.find(few)  # what is popular at each time is found once
    found = timed("candidates", "seeds", len(few), lambda: finder.find(few))
    least = few.take(np.arange(min(IN_PYTHON, len(few))))
    in_python = timed(
        "candidates in pure Python", "seeds", len(least), lambda: python_walk(finder, least)
    )
    for place_, counts in enumerate(in_python):
        row, count = found.row[place_], found.count[place_]
        ours = {int(r): int(c.sum()) for r, c in zip(row, count) if r >= 0}
        assert ours == counts, "both walks find the same"
    model = make_model(data, config).to(on)
    trainer = timed(
        "candidates of training", "labels", LABELS, lambda: Trainer(model, data, config.train, on)
    )
    timed("training", "steps", min(steps, trainer.steps), trainer.run)
    asked = data.seeds["test"]
    asked = asked.take(np.resize(np.arange(len(asked)), users))
    scorer = RecommendScorer(model, data.destinations, on, is_final=True)
    timed(f"first {k}", "users", users, lambda: _rank(scorer, asked, Wish(k)))
    by_name = {entry["what"]: entry for entry in results}
    slow, fast = by_name["candidates in pure Python"], by_name["candidates"]
    ratio = slow["microseconds_each"] / max(fast["microseconds_each"], 1e-9)
    return {
        "machine": machine(),
        "results": results,
        "ratios": {"candidates over pure Python": round(ratio, 1)},
    }


def _rank(scorer: Any, seeds: Seeds, wish: Any) -> None:
    for start in range(0, len(seeds), 2_048):
        scorer.rank(seeds.take(np.arange(start, min(start + 2_048, len(seeds)))), wish)


def python_walk(finder: CandidateFinder, seeds: Seeds) -> list[dict[int, int]]:
    """How often walks along the finder's paths end at each destination, for each seed: what a
    competent programmer would write with lists and dictionaries, bounded as the finder is."""
    from gelgt.candidates.find import BOUNDS

    graph = finder.graph
    first = int(graph.offsets[graph.table_number(finder.destination)])
    out = []
    asked = zip(
        seeds.node.tolist(), finder.limits(seeds).tolist(), finder.references(seeds).tolist()
    )
    for seed, limit, reference in asked:
        ends: Counter[int] = Counter()
        for path in finder.paths:
            nodes = [seed]
            for step in path.steps:
                table = graph.table_number(step.key.child)
                start, stop = int(graph.offsets[table]), int(graph.offsets[table + 1])
                keys = graph.table_parents(step.key.child)[:, step.key.place]
                reached: list[int] = []
                for node in nodes:
                    if not step.is_down:
                        parent = int(keys[node - start])
                        if parent >= 0 and graph.node_time[parent] < limit:
                            reached.append(parent)
                        continue
                    children = [
                        int(child)
                        for child in graph.neighbours(node)
                        if start <= child < stop
                        and keys[child - start] == node
                        and graph.node_time[child] < limit
                    ]
                    reached += children[: BOUNDS.fanout]
                nodes = reached[: BOUNDS.width]
            ends.update(node - first for node in nodes)
        for row in finder.popular(limit, reference).tolist():
            ends.setdefault(row, 0)
        out.append(dict(ends))
    return out
