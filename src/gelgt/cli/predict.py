"""`gelgt predict`: predictions of a finished run, printed or written to a file."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelgt.cli.bundle import bundled
from gelgt.cli.lean import load_deferred
from gelgt.cli.options import JsonFlag, RunOptions
from gelgt.cli.output import graver_findings, note, print_json, print_table, say
from gelgt.cli.predict_options import OutputOptions, RecommendOptions, SeedOptions
from gelgt.cli.shard_options import ShardOptions
from gelgt.errors import GelgtError

if TYPE_CHECKING:
    from gelgt.inference import Opened, Predictor, SeedRows
    from gelgt.inference.part_scorer import Question
    from gelgt.runs.folder import Run

SHOWN = 20  # predictions that are printed without --out
SHOWN_LISTS = 3  # entities whose recommendations are
MAX_JSON = 10_000  # predictions that --json prints without --out
Tables = Callable[[Any, Any], Iterator[Any]]  # of rows at times


@bundled
def predict_command(
    *,
    seeds: SeedOptions,
    recommend: RecommendOptions,
    output: OutputOptions,
    shards: ShardOptions,
    run: RunOptions,
    as_json: JsonFlag = False,
) -> None:
    """Predict with a run.

    A prediction sees every row before its seed time and none after it. Examples:

    gelgt predict runs/churn --all --out churn.parquet

    gelgt predict runs/churn --entities 42,57 --at 2026-11-01

    gelgt predict runs/spend --all --interval 0.9 --out spend.csv

    gelgt predict runs/next-products --all --k 5 --new-only --out offers.csv

    gelgt predict runs/churn --all --out churn/ --shards 16
    """
    seeds.check(output.out)
    recommend.check(seeds.relbench)
    shards.check(seeds, output.out)
    output.check(seeds.relbench, is_folder=shards.is_given)
    arguments = seeds.arguments()
    loaded = run.load()
    output.check_run(loaded)
    if loaded.config.kind != "gelgt":
        load_deferred()  # the networks of others may do anything with PyTorch
    if shards.is_given:
        from gelgt.cli.predict_parts import predict_parts

        assert output.out is not None  # checked above
        question = _question(run, seeds, recommend, output)
        predict_parts(run, question, shards, output.out, as_json)
    elif seeds.relbench is not None:
        _write_relbench(loaded, run, seeds.relbench, as_json)
    else:
        _predict(loaded, run, arguments, recommend, output, as_json)


def _predict(
    loaded: "Run",
    run: RunOptions,
    arguments: dict[str, Any],
    recommend: RecommendOptions,
    output: OutputOptions,
    as_json: bool,
) -> None:
    from gelgt.cli.waiting import working

    start = time.perf_counter()
    with working("opening the source"):
        predictor, rows = _prepare(loaded, run.open(loaded), run.device, arguments)
        wishes, out = recommend.wishes(), output.out
        if not wishes.is_plain:
            wishes.wish(predictor.db, predictor.task)  # raises before anything is written
        tables = partial(predictor.predict_table, recommend=wishes, interval=output.interval)
    result: dict[str, Any] = {
        "rows": len(rows),
        "out": None,
        "run": str(run.run),
        "source": run.address(loaded),
        "notices": list(rows.notices),
        "findings": [finding.to_dict() for finding in predictor.findings],
    }
    if out is not None:
        opened = time.perf_counter()
        _write(tables, rows, out)
        end = time.perf_counter()
        result |= {
            "out": str(out),
            "seconds": round(end - start, 2),
            "rows_per_second": round(len(rows) / max(end - opened, 1e-9)),
        }
    elif as_json:
        result["predictions"] = _records(tables, rows)
    if as_json:
        print_json(result)
        return
    for text in (*graver_findings(predictor.findings, result["source"]), *rows.notices):
        note(f"note: {text}")
    if out is None:
        shown = SHOWN if predictor.task.dst_entity_table is None else SHOWN_LISTS
        _print(tables, rows, shown)
        return
    is_list = predictor.task.dst_entity_table is not None
    what = (
        f"Recommendations for {len(rows):,} entities" if is_list else f"{len(rows):,} predictions"
    )
    say(
        f"{what} written to {out} in {result['seconds']:.1f} s "
        f"({result['rows_per_second']:,} per second once the source was open)"
    )


def _question(
    run: RunOptions, seeds: SeedOptions, recommend: RecommendOptions, output: OutputOptions
) -> "Question":
    from gelgt.inference.part_scorer import Question

    return Question(
        str(run.run),
        run.source,
        run.namespace,
        seeds.at,
        run.device,
        output.interval,
        recommend.wishes(),
    )


def _prepare(
    run: "Run", opened: "Opened", device: str, arguments: dict[str, Any]
) -> "tuple[Predictor, SeedRows]":
    from gelgt.inference import Predictor

    predictor = Predictor(run, opened, device=device)
    if predictor.scorer.device.type != "cpu":
        load_deferred()  # a GPU may compile
    try:
        return predictor, predictor.seeds(**arguments)
    except GelgtError as error:
        if error.code != "bad_key":
            raise
        raise GelgtError(
            error.code,
            error.message,
            hint="Give them with --frame FILE: a column for each part of the key, and a time.",
        ) from None


def _write(tables: Tables, rows: "SeedRows", out: str) -> None:
    from gelgt.cli.waiting import counted
    from gelgt.inference import write_predictions

    with counted("predicting", len(rows)) as count:
        write_predictions(_counting(tables(rows.rows, rows.times), count), out)


def _counting(tables: Iterator[Any], count: Callable[[int], None]) -> Iterator[Any]:
    for table in tables:
        yield table
        count(table.num_rows)


def _print(tables: Tables, rows: "SeedRows", shown: int) -> None:
    """The first predictions as a table."""
    import pyarrow as pa

    table = pa.concat_tables(tables(rows.rows[:shown], rows.times[:shown]))
    columns = [[_cell(value) for value in column.to_pylist()] for column in table.columns]
    numbers = [
        i
        for i, field in enumerate(table.schema)
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    ]
    print_table(table.column_names, list(zip(*columns)), right=numbers)
    if len(rows) > shown:
        what = "predictions" if shown == SHOWN else "entities"
        say("", f"the first {shown} of {len(rows):,} {what}; --out FILE.parquet writes all")


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _records(tables: Tables, rows: "SeedRows") -> list[dict[str, Any]]:
    import pyarrow as pa

    if len(rows) > MAX_JSON:
        raise GelgtError(
            "too_many_rows",
            f"--json prints at most {MAX_JSON:,} predictions, got {len(rows):,}.",
            hint="Write them with --out FILE.parquet.",
        )
    records: list[dict[str, Any]] = pa.concat_tables(tables(rows.rows, rows.times)).to_pylist()
    return records


def _write_relbench(loaded: "Run", run: RunOptions, out: Path, as_json: bool) -> None:
    from gelgt.cli.waiting import working
    from gelgt.inference import write_relbench

    with working("predicting the test split"):
        opened = run.open(loaded)
        path = write_relbench(loaded, opened, out, device=run.device)
    rows, regime = loaded.record.task.rows["test"], loaded.record.regime
    if as_json:
        notices = list(opened.notices)
        print_json({"rows": rows, "out": str(path), "regime": regime, "notices": notices})
    else:
        say(f"{rows:,} test rows written to {path} (regime {regime})")
