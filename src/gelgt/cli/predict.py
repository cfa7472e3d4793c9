"""`gelgt predict`: predictions of a finished run, printed or written to a file."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gelgt.cli.bundle import bundled
from gelgt.cli.lean import load_deferred
from gelgt.cli.options import JsonFlag, RunOptions
from gelgt.cli.output import note, print_json, print_table, say
from gelgt.errors import GelgtError

if TYPE_CHECKING:
    from gelgt.inference import Opened, Predictor, Recommend, SeedRows
    from gelgt.runs.folder import Run

SHOWN = 20  # predictions that are printed without --out
SHOWN_LISTS = 3  # entities whose recommendations are
MAX_JSON = 10_000  # predictions that --json prints without --out


@dataclass(frozen=True)
class SeedOptions:
    """For which entities and times to predict."""

    entities: Annotated[
        str | None,
        typer.Option(
            "--entities",
            metavar="1,2,3",
            help="Keys of entities, separated by commas, or @FILE with one key per line.",
        ),
    ] = None
    everyone: Annotated[
        bool, typer.Option("--all", help="All eligible entities at --at (the default).")
    ] = False
    frame: Annotated[
        Path | None,
        typer.Option(
            "--frame",
            metavar="FILE",
            help="A .csv or .parquet file with key columns and a time column.",
        ),
    ] = None
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="T", help="Seed time of the predictions; now by default."),
    ] = None
    relbench: Annotated[
        Path | None,
        typer.Option(
            "--relbench",
            metavar="OUT",
            help="Write RelBench's prediction table of the test split (.csv or folder).",
        ),
    ] = None

    def check(self, out: Path | None) -> None:
        """Raises where options do not go together."""
        given = {
            "--entities": self.entities is not None,
            "--all": self.everyone,
            "--frame": self.frame is not None,
            "--relbench": self.relbench is not None,
        }
        chosen = [option for option, is_given in given.items() if is_given]
        if len(chosen) > 1:
            raise GelgtError(
                "bad_option",
                f"{' and '.join(chosen)} cannot be combined.",
                hint="Give one of them.",
            )
        if self.at is not None and (self.frame is not None or self.relbench is not None):
            raise GelgtError(
                "bad_option",
                f"--at cannot be combined with {chosen[0]}, whose rows have times of their own.",
                hint="Leave --at out.",
            )
        if self.relbench is not None and out is not None:
            raise GelgtError(
                "bad_option",
                "--out cannot be combined with --relbench OUT, which names the file to write.",
                hint="Leave --out out.",
            )

    def arguments(self) -> dict[str, Any]:
        """What `Predictor.seeds` takes."""
        return {
            "entities": listed_keys(self.entities),
            "frame": frame_of(self.frame),
            "at": self.at,
        }


@dataclass(frozen=True)
class RecommendOptions:
    """What may be recommended, where the task recommends."""

    k: Annotated[
        int | None,
        typer.Option(
            "--k",
            metavar="N",
            min=1,
            help="Recommend so many rows; by default as many as the task evaluates.",
        ),
    ] = None
    new_only: Annotated[
        bool,
        typer.Option("--new-only", help="Recommend nothing that the entity has had before."),
    ] = False
    allowed: Annotated[
        str | None,
        typer.Option(
            "--allowed",
            metavar="1,2,3",
            help="Recommend only these keys, separated by commas, or @FILE with one key per line.",
        ),
    ] = None

    def wishes(self) -> "Recommend":
        from gelgt.inference import Recommend

        return Recommend(self.k, self.new_only, listed_keys(self.allowed))

    def check(self, relbench: Path | None) -> None:
        """Raises where options do not go together."""
        if relbench is not None and (self.k, self.new_only, self.allowed) != (None, False, None):
            raise GelgtError(
                "bad_option",
                "--relbench writes what the task evaluates: --k, --new-only and --allowed cannot "
                "change that.",
                hint="Leave them out.",
            )


@bundled
def predict_command(
    *,
    seeds: SeedOptions,
    recommend: RecommendOptions,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Write to this .parquet or .csv file instead of printing."
        ),
    ] = None,
    run: RunOptions,
    as_json: JsonFlag = False,
) -> None:
    """Predict with a run.

    A prediction sees every row before its seed time and none after it. Examples:

    gelgt predict runs/churn --all --out churn.parquet

    gelgt predict runs/churn --entities 42,57 --at 2026-11-01

    gelgt predict runs/next-products --all --k 5 --new-only --out offers.csv
    """
    seeds.check(out)
    recommend.check(seeds.relbench)
    if out is not None:
        from gelgt.inference import check_path

        check_path(out)
    arguments = seeds.arguments()
    loaded = run.load()
    if loaded.config.kind != "gelgt":
        load_deferred()  # the networks of others may do anything with PyTorch
    if seeds.relbench is not None:
        _write_relbench(loaded, run, seeds.relbench, as_json)
    else:
        _predict(loaded, run, arguments, recommend.wishes(), out, as_json)


def _predict(
    loaded: "Run",
    run: RunOptions,
    arguments: dict[str, Any],
    recommend: "Recommend",
    out: Path | None,
    as_json: bool,
) -> None:
    from gelgt.cli.waiting import working

    start = time.perf_counter()
    with working("opening the source"):
        predictor, rows = _prepare(loaded, run.open(loaded), run.device, arguments)
        if not recommend.is_plain:
            recommend.wish(predictor.db, predictor.task)  # raises before anything is written
    result: dict[str, Any] = {
        "rows": len(rows),
        "out": None,
        "run": str(run.run),
        "source": run.address(loaded),
        "notices": list(rows.notices),
    }
    if out is not None:
        opened = time.perf_counter()
        _write(predictor, rows, recommend, out)
        end = time.perf_counter()
        result |= {
            "out": str(out),
            "seconds": round(end - start, 2),
            "rows_per_second": round(len(rows) / max(end - opened, 1e-9)),
        }
    elif as_json:
        result["predictions"] = _records(predictor, rows, recommend)
    if as_json:
        print_json(result)
        return
    for text in rows.notices:
        note(f"note: {text}")
    if out is None:
        _print(predictor, rows, recommend)
        return
    is_list = predictor.task.dst_entity_table is not None
    what = (
        f"Recommendations for {len(rows):,} entities" if is_list else f"{len(rows):,} predictions"
    )
    say(
        f"{what} written to {out} in {result['seconds']:.1f} s "
        f"({result['rows_per_second']:,} per second once the source was open)"
    )


def listed_keys(text: str | None) -> list[str] | None:
    """Keys as they were typed, or the lines of a file."""
    if text is None:
        return None
    if not text.startswith("@"):
        return [key.strip() for key in text.split(",") if key.strip()]
    path = Path(text[1:]).expanduser()
    if not path.is_file():
        raise GelgtError(
            "not_found", f"There is no file {path}.", hint="Write one key per line into it."
        )
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise GelgtError(
            "unreadable_file",
            f"{path} is not UTF-8 text.",
            hint="Write one key per line, or use --frame.",
        ) from None
    return [line.strip() for line in lines if line.strip()]


def frame_of(path: Path | None) -> Any:
    if path is None:
        return None
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise GelgtError(
            "unknown_format",
            f"--frame must be a .csv or .parquet file, got '{path.name}'.",
            hint="Write the rows as CSV or Parquet, with that ending.",
        )
    from gelgt.tasks.definition import read_definition

    return read_definition(str(path))


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


def _write(predictor: "Predictor", rows: "SeedRows", recommend: "Recommend", out: Path) -> None:
    from gelgt.cli.waiting import counted
    from gelgt.inference import write_predictions

    with counted("predicting", len(rows)) as count:
        tables = predictor.predict_table(rows.rows, rows.times, recommend)
        write_predictions(_counting(tables, count), out)


def _counting(tables: Iterator[Any], count: Callable[[int], None]) -> Iterator[Any]:
    for table in tables:
        yield table
        count(table.num_rows)


def _print(predictor: "Predictor", rows: "SeedRows", recommend: "Recommend") -> None:
    """The first predictions as a table."""
    import pyarrow as pa

    shown = SHOWN if predictor.task.dst_entity_table is None else SHOWN_LISTS
    tables = predictor.predict_table(rows.rows[:shown], rows.times[:shown], recommend)
    table = pa.concat_tables(tables)
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


def _records(
    predictor: "Predictor", rows: "SeedRows", recommend: "Recommend"
) -> list[dict[str, Any]]:
    import pyarrow as pa

    if len(rows) > MAX_JSON:
        raise GelgtError(
            "too_many_rows",
            f"--json prints at most {MAX_JSON:,} predictions, got {len(rows):,}.",
            hint="Write them with --out FILE.parquet.",
        )
    tables = predictor.predict_table(rows.rows, rows.times, recommend)
    records: list[dict[str, Any]] = pa.concat_tables(tables).to_pylist()
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
