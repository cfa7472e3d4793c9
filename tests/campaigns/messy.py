"""Messy: random small businesses whose databases lead an importer astray, and whose truth is known.
What gelgt infers may cost information, never truth (DESIGN: "What is inferred is safe").

    python -m campaigns messy --cases 300 --seed 0     # counts of outcomes, failures in a file
    python -m campaigns.messy --cases 60 --seed 0      # the same here, with a table by shape
    python -m campaigns.messy --shape favourites       # one shape only
    python -m campaigns.messy --seed 0 --case 17       # one case, with all that is known of it
"""

import argparse
import json
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import numpy as np

from campaigns.frame import Campaign, random_of
from campaigns.messy_judge import Verdict, judge
from campaigns.messy_shapes import BEYOND, SHAPES, random_world
from campaigns.messy_world import Random, World, cleaned, write
from campaigns.world import cached_in

_FAILURE = re.compile(r"case \d+ \[(.+?)(?: \+ .+)?\] (wrong|crashed)")
OUTCOMES = ("answered", "left_out", "refused", "wrong", "crashed")


def tried(
    folder: Path, random: Random, shape: str = "", is_clean: bool = False
) -> tuple[World, Verdict]:
    """One random world, as it is or without what is doubtful, and the verdict on it."""
    world = random_world(random, shape)
    world = cleaned(world) if is_clean else world
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    source = write(world, folder, random)
    try:
        with cached_in(folder / "cache"):
            return world, judge(world, source)
    except Exception as error:  # a bug, of gelgt or of the judge
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}"
        return world, Verdict("crashed", [f"{where}: {error}"], [])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def case(folder: Path, number: int, random: Random) -> str:
    world, verdict = tried(folder / "case", random, shape_of(number))
    assert verdict.outcome not in ("wrong", "crashed"), line(number, world, verdict)
    return f"{world.shapes[0]}: {verdict.outcome}"


def shape_of(number: int) -> str:
    """The first shape of a case: the first cases have one each."""
    order = np.random.default_rng(5).permutation(len(SHAPES))
    return list(SHAPES)[order[number]] if number < len(SHAPES) else ""


def summary(out: Path) -> None:
    """Print outcomes by shape, and a line for each case that was wrong."""
    record = json.loads((out / "messy.json").read_text())
    failures = out / "messy.failures.jsonl"
    counts: dict[str, Counter[str]] = {}
    found = Counter(record["outcomes"])
    for text in failures.read_text().splitlines() if failures.is_file() else ():
        trace = json.loads(text)["trace"].strip()
        told = trace.partition("AssertionError: ")[2].splitlines() or trace.splitlines()[-1:]
        print(told[0])
        if match := _FAILURE.match(told[0]):
            found[f"{match[1]}: {match[2]}"] += 1
    for outcome, count in found.items():
        name, _, word = outcome.rpartition(": ")
        for each in (name, "all") if name else ():
            counts.setdefault(each, Counter())[word] += count
    if counts:
        _say(counts)


def line(number: int, world: World, verdict: Verdict) -> str:
    """One failure: number, shapes, parameters, what was wrong."""
    facts = ", ".join(f"{k}={v}" for k, v in world.facts.items() if v is not None)
    declared = "declared keys" if world.is_declared else "no declared keys"
    return (
        f"case {number} [{' + '.join(world.shapes)}] {verdict.outcome}: {'; '.join(verdict.notes)} "
        f"({world.source}, {declared}, {facts}; {world.question and world.question.sentence})"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m campaigns.messy")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int)
    parser.add_argument("--shape", default="", choices=["", *SHAPES, *BEYOND])
    parser.add_argument("--clean", action="store_true", help="a control: nothing is doubtful")
    parser.add_argument("--keep", type=Path, help="write the source of --case here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "case"
        if options.case is not None:
            _replay(options, place)
            return 0
        counts: dict[str, Counter[str]] = {}
        for number in range(options.first, options.first + options.cases):
            began = time.perf_counter()
            random = random_of(options.seed, number)
            shape = options.shape or shape_of(number)
            world, verdict = tried(place, random, shape, options.clean)
            for name in world.shapes:
                counts.setdefault(name, Counter())[verdict.outcome] += 1
                counts[name]["lost"] += bool(verdict.lost)
            counts.setdefault("all", Counter())[verdict.outcome] += 1
            counts["all"]["lost"] += bool(verdict.lost)
            if verdict.outcome in ("wrong", "crashed"):
                print(
                    line(number, world, verdict), f"{time.perf_counter() - began:.1f} s", flush=True
                )
        _say(counts)
        return 1 if counts["all"]["wrong"] + counts["all"]["crashed"] else 0


def _say(counts: dict[str, Counter[str]]) -> None:
    print(f"\n{'shape':38}" + "".join(f"{word:>10}" for word in (*OUTCOMES, "lost")))
    for name, count in sorted(counts.items(), key=lambda item: (item[0] == "all", item[0])):
        print(f"{name:38}" + "".join(f"{count[word]:10}" for word in (*OUTCOMES, "lost")))
    total = sum(counts["all"][word] for word in OUTCOMES)
    print(", ".join(f"{word} {counts['all'][word] / total:.0%}" for word in OUTCOMES))


def _replay(options: argparse.Namespace, place: Path) -> None:
    """One case with its tables, what gelgt infers of it, and the verdict."""
    import gelgt

    random = random_of(options.seed, options.case)
    world = random_world(random, options.shape or shape_of(options.case))
    world = cleaned(world) if options.clean else world
    folder = options.keep or place
    folder.mkdir(parents=True, exist_ok=True)
    source = write(world, folder, random)
    for table in world.tables.values():
        print(f"{table.name} ({table.rows:,} rows)")
        for name, column in table.columns.items():
            empty = np.mean([v is None or v == -1 for v in column.values]) if column.values else 0
            target = f" → {column.parent}" if column.parent else ""
            known = "" if column.known is None else ", known later"
            form = f" {column.form}" if column.kind == "time" else ""
            print(f"    {name}: {column.kind}{form}{target}, {empty:.1%} empty{known}")
    with cached_in(place / "cache"):
        try:
            db = gelgt.open(source)
            for name in db.table_names:
                schema = db.table(name)
                keys = ", ".join(f"{fk.column} → {fk.table}" for fk in schema.foreign_keys)
                print(f"{name}: time {schema.time_col}; keys {keys}; {schema.dating}")
        except Exception as error:
            print(repr(error))
        try:
            verdict = judge(world, source)
        except Exception:
            verdict = Verdict("crashed", [traceback.format_exc()], [])
    print(line(options.case, world, verdict))
    if verdict.lost:
        print("lost:", verdict.lost)


CAMPAIGN = Campaign("messy", lambda folder: folder, case, long=300, short=12)

if __name__ == "__main__":
    sys.exit(main())
