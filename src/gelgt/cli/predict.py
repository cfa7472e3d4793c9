"""`gelgt predict` and `gelgt evaluate`: a finished run on its own source, or on another one."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from gelgt.cli import options as given
from gelgt.cli.output import note, print_json, print_table, say
from gelgt.errors import GelgtError

SHOWN = 20  # rows that are printed for people
MOST = 10_000  # rows that --json prints without a file

FromOption = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="S",
        help="The database to read, as for gelgt train; the run's own by default.",
    ),
]


def evaluate_command(
    run: given.RunArg,
    split: Annotated[
        str, typer.Option("--split", metavar="test|val", help="Which labels.")
    ] = "test",
    source: FromOption = None,
    namespace: given.NamespaceOption = None,
    device: given.DeviceOption = "auto",
    as_json: given.JsonFlag = False,
) -> None:
    """Score a run again, from its weights.

    On the data it was trained on the scores are those of the training run; on a source that has
    grown, labels are made anew.
    """
    given.one_of("--split", split, ("test", "val", "train"))
    from gelgt.cli.progress import working
    from gelgt.cli.scores import baseline_words, print_scores, regime_words, told_apart
    from gelgt.inference import evaluate_run
    from gelgt.training import load_run

    begun = time.perf_counter()
    loaded = load_run(run)
    with working(f"scoring {split}"):
        opened = _open(loaded, source, namespace)
        found = evaluate_run(loaded, opened, split, device=device)
    metric = loaded.record.metric
    result = found | {
        "metric": metric,
        "split": split,
        "source": _address(loaded, source),
        "seconds": round(time.perf_counter() - begun, 2),
    }
    if as_json:
        print_json(result)
        return
    say(
        f"{loaded.record.task.name}: {found['rows']:,} rows of {split} "
        f"({regime_words(loaded.record)})",
        style="bold",
    )
    print_scores(metric, {**told_apart(loaded.record.model, found), **found["baselines"]}, (split,))
    if words := baseline_words(found):
        say(words)
    for text in found["notices"]:
        note(f"note: {text}")


def predict_command(
    run: given.RunArg,
    entities: Annotated[
        str | None,
        typer.Option(
            "--entities",
            metavar="1,2,3",
            help="Your own keys, separated by commas, or @FILE with one a line.",
        ),
    ] = None,
    everyone: Annotated[
        bool,
        typer.Option("--all", help="Everyone whom the task is about at that time (the default)."),
    ] = False,
    frame: Annotated[
        Path | None,
        typer.Option(
            "--frame",
            metavar="FILE",
            help="A .csv or .parquet file with key columns and a time column.",
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="T", help="Predict from this time on; now by default."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Write to this .parquet or .csv file instead of printing."
        ),
    ] = None,
    relbench: Annotated[
        Path | None,
        typer.Option(
            "--relbench",
            metavar="OUT",
            help="Write RelBench's prediction table of the test rows (.csv or folder).",
        ),
    ] = None,
    source: FromOption = None,
    namespace: given.NamespaceOption = None,
    device: given.DeviceOption = "auto",
    as_json: given.JsonFlag = False,
) -> None:
    """Predict with a run, for your own keys.

    A prediction at a time sees every row before it and none after. Examples:

    gelgt predict runs/churn --all --out churn.parquet

    gelgt predict runs/churn --entities 42,57 --at 2026-11-01
    """
    _check_choice(entities, everyone, frame, at, relbench, out)
    from gelgt.inference import check_path
    from gelgt.training import load_run

    if out is not None:
        check_path(out)
    asked = {"entities": _entities(entities), "frame": _frame(frame), "at": at}
    loaded = load_run(run)
    if relbench is not None:
        _write_relbench(loaded, source, namespace, relbench, device, as_json)
        return
    from gelgt.cli.progress import working

    begun = time.perf_counter()
    with working("opening the source"):
        predictor, seeds = _prepare(loaded, _open(loaded, source, namespace), device, asked)
    result: dict[str, Any] = {
        "rows": len(seeds),
        "out": None,
        "run": str(run),
        "source": _address(loaded, source),
        "notices": list(seeds.notices),
    }
    if out is not None:
        _write(predictor, seeds, out)
        result |= {"out": str(out), "seconds": round(time.perf_counter() - begun, 2)}
    elif as_json:
        result["predictions"] = _records(predictor, seeds)
    if as_json:
        print_json(result)
        return
    for text in seeds.notices:
        note(f"note: {text}")
    if out is not None:
        say(f"{len(seeds):,} predictions written to {out} in {result['seconds']:.1f} s")
    else:
        _print(predictor, seeds)


def _check_choice(
    entities: str | None,
    everyone: bool,
    frame: Path | None,
    at: str | None,
    relbench: Path | None,
    out: Path | None,
) -> None:
    """Whether the options go together."""
    named = {
        "--entities": entities is not None,
        "--all": everyone,
        "--frame": frame is not None,
        "--relbench": relbench is not None,
    }
    chosen = [option for option, is_given in named.items() if is_given]
    if len(chosen) > 1:
        raise GelgtError(
            "bad_option", f"{' and '.join(chosen)} do not go together.", hint="Give one of them."
        )
    if at is not None and (frame is not None or relbench is not None):
        raise GelgtError("bad_option", f"{chosen[0]} brings its own times.", hint="Leave --at out.")
    if relbench is not None and out is not None:
        raise GelgtError(
            "bad_option", "--relbench says itself where to write.", hint="Leave --out out."
        )


def _entities(text: str | None) -> list[str] | None:
    """Keys as they were typed, or the lines of a file."""
    if text is None:
        return None
    if not text.startswith("@"):
        return [key.strip() for key in text.split(",") if key.strip()]
    path = Path(text[1:]).expanduser()
    if not path.is_file():
        raise GelgtError(
            "not_found", f"There is no file {path}.", hint="Write one key a line into it."
        )
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise GelgtError(
            "unreadable_file",
            f"{path} is no UTF-8 text.",
            hint="Write one key a line, or use --frame.",
        ) from None
    return [line.strip() for line in lines if line.strip()]


def _frame(path: Path | None) -> Any:
    from gelgt.cli.task import read_definition

    if path is None:
        return None
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise GelgtError(
            "unknown_format", f"{path.name} is neither .csv nor .parquet.", hint="Name the file so."
        )
    return read_definition(str(path))


def _open(run: Any, source: str | None, namespace: str | None) -> Any:
    """The source that was named, or the run's own."""
    from gelgt.inference import open_for

    return open_for(run, source, namespace=namespace)


def _address(run: Any, source: str | None) -> str:
    return run.record.data.source if source is None else given.address_of(source)


def _prepare(run: Any, opened: Any, device: str, asked: dict[str, Any]) -> tuple[Any, Any]:
    from gelgt.inference import Predictor

    predictor = Predictor(run, opened, device=device)
    try:
        return predictor, predictor.seeds(**asked)
    except GelgtError as error:
        if error.code != "bad_key":
            raise
        raise GelgtError(
            error.code,
            error.message,
            hint="Give them with --frame FILE: one column for each part, and a time.",
        ) from None


def _write(predictor: Any, seeds: Any, out: Path) -> None:
    from gelgt.cli.progress import counted
    from gelgt.inference import write_predictions

    with counted("predicting", len(seeds)) as count:
        write_predictions(_counting(predictor.predict_table(seeds.rows, seeds.times), count), out)


def _counting(tables: Iterator[Any], count: Any) -> Iterator[Any]:
    for table in tables:
        yield table
        count(table.num_rows)


def _print(predictor: Any, seeds: Any) -> None:
    """The first rows, as people read them."""
    import pyarrow as pa

    table = pa.concat_tables(predictor.predict_table(seeds.rows[:SHOWN], seeds.times[:SHOWN]))
    columns = [[_cell(value) for value in column.to_pylist()] for column in table.columns]
    numbers = [
        i
        for i, field in enumerate(table.schema)
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    ]
    print_table(table.column_names, list(zip(*columns)), right=numbers)
    if len(seeds) > SHOWN:
        say(
            "",
            f"the first {SHOWN} of {len(seeds):,} predictions; write them all with --out "
            "FILE.parquet",
        )


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _records(predictor: Any, seeds: Any) -> list[dict[str, Any]]:
    import pyarrow as pa

    if len(seeds) > MOST:
        raise GelgtError(
            "too_many_rows",
            f"{len(seeds):,} predictions are too many to print.",
            hint="Write them with --out FILE.parquet.",
        )
    found: list[dict[str, Any]] = pa.concat_tables(
        predictor.predict_table(seeds.rows, seeds.times)
    ).to_pylist()
    return found


def _write_relbench(
    run: Any, source: str | None, namespace: str | None, out: Path, device: str, as_json: bool
) -> None:
    from gelgt.cli.progress import working
    from gelgt.inference import write_relbench

    with working("predicting the test rows"):
        opened = _open(run, source, namespace)
        path = write_relbench(run, opened, out, device=device)
    rows = run.record.task.rows["test"]
    if as_json:
        print_json(
            {
                "rows": rows,
                "out": str(path),
                "regime": run.record.regime,
                "notices": list(opened.notices),
            }
        )
    else:
        say(f"{rows:,} test rows written to {path} (regime {run.record.regime})")
