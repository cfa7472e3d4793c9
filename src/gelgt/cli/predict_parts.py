"""`gelgt predict` for a population in parts: here, one of them, or on a Ray cluster."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelgt.cli.lean import load_deferred
from gelgt.cli.options import RunOptions
from gelgt.cli.output import graver_findings, note, print_json, say
from gelgt.cli.shard_options import ShardOptions

if TYPE_CHECKING:
    from gelgt.inference.part_scorer import PartScorer, Question
    from gelgt.inference.plan import Commit, Plan

SHARD_ENTITIES = 100_000  # where the number of shards is not given: a file of some megabytes
SHARDS_PER_WORKER = 4  # so that the last ones do not wait long for each other
LEAST_ENTITIES = 2_000  # of a shard of a small population


def predict_parts(
    run: RunOptions, question: "Question", shards: ShardOptions, out: str, as_json: bool
) -> None:
    """Make parts, and say what was made."""
    load_deferred()  # a GPU may compile
    begin, folder = time.perf_counter(), _place(out)
    question = _at_time_of(folder, question).anywhere()
    made: list[Commit] = []
    try:
        if shards.engine is None:
            scorer, plan = _make_here(run, question, shards, folder, made)
        else:
            scorer, plan = _make_on_ray(run, question, shards, folder, made)
    except KeyboardInterrupt:
        note(f"interrupted: what is committed in {folder} stays; the same command goes on from it")
        raise
    result = _result(folder, plan, made, time.perf_counter() - begin)
    findings = scorer.predictor.findings
    result |= {
        "run": str(run.run),
        "notices": list(scorer.notices),
        "findings": [finding.to_dict() for finding in findings],
    }
    if as_json:
        print_json(result)
        return
    for text in (*graver_findings(findings, scorer.predictor.db.source), *scorer.notices):
        note(f"note: {text}")
    say(_sentence(folder, result))


def _make_here(
    run: RunOptions,
    question: "Question",
    shards: ShardOptions,
    folder: str,
    made: "list[Commit]",
) -> "tuple[PartScorer, Plan]":
    from gelgt.cli.waiting import counted, working
    from gelgt.inference.part_scorer import PartScorer
    from gelgt.inference.plan import agree, read_commit
    from gelgt.inference.shards import finish, missing

    one = shards.one_of_many()
    with working("opening the source"):
        scorer = PartScorer(question, run.fresh, must_have_time=one is not None)
    count = one[1] if one is not None else shards.shards
    assert count is not None  # one of the two is given
    plan = scorer.plan(count)
    agree(folder, plan)
    if one is None:
        parts = missing(folder, plan)
    else:
        parts = [one[0]] if read_commit(folder, plan, one[0]) is None else []
    total = sum(len(scorer.division.part(number, count)) for number in parts)
    with counted("predicting", total) as done:
        for number in parts:
            made.append(scorer.write(folder, plan, number))
            done(made[-1].entities)
    finish(folder, plan)
    return scorer, plan


def _make_on_ray(
    run: RunOptions,
    question: "Question",
    shards: ShardOptions,
    folder: str,
    made: "list[Commit]",
) -> "tuple[PartScorer, Plan]":
    from dataclasses import replace

    from gelgt.cli.waiting import counted, working
    from gelgt.engines.cluster import connected, load_ray, resources
    from gelgt.engines.ray import RayScoring, Reports
    from gelgt.inference.part_scorer import PartScorer
    from gelgt.inference.plan import agree, read_plan
    from gelgt.inference.shards import finish, missing

    load_ray(is_alone=shards.address is None)  # raises before anything is opened
    with working("opening the source"):
        scorer = PartScorer(replace(question, device="cpu"), run.fresh)
    with connected(shards.address, shards.workers) as ray:
        room, asks, device = resources(ray, question.device)
        workers = shards.workers or room
        there = read_plan(folder)
        count = shards.shards or (there.shards if there else _shards_for(scorer, workers))
        plan = scorer.plan(count, device)
        agree(folder, plan)
        parts = missing(folder, plan)
        total = sum(len(scorer.division.part(number, count)) for number in parts)
        with counted("predicting", total) as done:
            reports = Reports(_both(made.append, lambda commit: done(commit.entities)), note)
            question = replace(question, at=scorer.at, device=device)
            anywhere = folder if "://" in folder else str(Path(folder).absolute())
            scoring = RayScoring(ray, question, plan, anywhere, asks, reports)
            scoring.write(parts, workers)
    finish(folder, plan)
    return scorer, plan


def _place(out: str) -> str:
    """A folder, or an address in object storage."""
    from gelgt.storage import is_storage

    return out.rstrip("/") if is_storage(out) else str(Path(out).expanduser())


def _at_time_of(folder: str, question: "Question") -> "Question":
    """The time of the predictions that are in a folder already, unless another is given."""
    from dataclasses import replace

    from gelgt.inference.plan import read_plan

    there = read_plan(folder)
    if there is None or question.at is not None:
        return question
    return replace(question, at=there.at)


def _shards_for(scorer: "PartScorer", workers: int) -> int:
    entities = len(scorer.division)
    by_size = -(-entities // SHARD_ENTITIES)
    by_workers = min(SHARDS_PER_WORKER * workers, -(-entities // LEAST_ENTITIES))
    return max(1, by_size, by_workers)


def _both(*calls: "Callable[[Commit], Any]") -> "Callable[[Commit], None]":
    def call(commit: "Commit") -> None:
        for each in calls:
            each(commit)

    return call


def _result(folder: str, plan: "Plan", made: "list[Commit]", seconds: float) -> dict[str, Any]:
    from gelgt.inference.shards import committed, is_finished

    _, commits = committed(folder)
    entities = sum(commit.entities for commit in made)
    return {
        "out": str(folder),
        "at": plan.at,
        "entities": plan.entities,
        "shards": plan.shards,
        "committed": len(commits),
        "made": [commit.part for commit in made],
        "is_finished": is_finished(folder),
        "seconds": round(seconds, 2),
        "entities_per_second": round(entities / max(seconds, 1e-9)),
    }


def _sentence(folder: str, result: dict[str, Any]) -> str:
    made, shards = len(result["made"]), result["shards"]
    parts = f"{made:,} of {shards:,} parts made in {result['seconds']:.1f} s"
    if result["is_finished"]:
        return f"{result['entities']:,} entities in {folder}, complete; {parts}"
    return f"{parts}; {folder} has {result['committed']:,}, and is not complete yet"
