"""The options of `gelgt predict`: for whom and when, how sure, and what may be recommended."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gelgt.errors import GelgtError

if TYPE_CHECKING:
    from gelgt.inference import Recommend
    from gelgt.runs.folder import Run

EntitiesOption = Annotated[
    str | None,
    typer.Option(
        "--entities",
        metavar="1,2,3",
        help="Keys of entities, separated by commas, or @FILE with one key per line.",
    ),
]
FrameOption = Annotated[
    Path | None,
    typer.Option(
        "--frame",
        metavar="FILE",
        help="A .csv or .parquet file with key columns and a time column.",
    ),
]
AtOption = Annotated[
    str | None,
    typer.Option("--at", metavar="T", help="Seed time of the predictions; now by default."),
]


@dataclass(frozen=True)
class SeedOptions:
    """For which entities and times to predict."""

    entities: EntitiesOption = None
    everyone: Annotated[
        bool, typer.Option("--all", help="All eligible entities at --at (the default).")
    ] = False
    frame: FrameOption = None
    at: AtOption = None
    relbench: Annotated[
        Path | None,
        typer.Option(
            "--relbench",
            metavar="OUT",
            help="Write RelBench's prediction table of the test split (.csv or folder).",
        ),
    ] = None

    def check(self, out: str | None) -> None:
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


@dataclass(frozen=True)
class OutputOptions:
    """Where predictions go, and what stands beside them."""

    interval: Annotated[
        float | None,
        typer.Option(
            "--interval",
            metavar="LEVEL",
            help="Where a number is predicted, add lower and upper: the interval that holds it "
            "with this probability, such as 0.9.",
        ),
    ] = None
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write to this .parquet or .csv file, here or in object storage (s3://…, gs://…, "
            "az://…), instead of printing; a folder or a prefix with --shards.",
        ),
    ] = None

    def check(self, relbench: Path | None, is_folder: bool = False) -> None:
        """Raises where options do not go together, or mean nothing."""
        if self.interval is not None:
            from gelgt.calibration import check_level

            check_level(self.interval)
        if self.interval is not None and relbench is not None:
            raise GelgtError(
                "bad_option",
                "--interval cannot be combined with --relbench, whose table has no intervals.",
                hint="Leave --interval out.",
            )
        if self.out is not None and not is_folder:
            from gelgt.inference import check_path

            check_path(self.out)

    def check_run(self, run: "Run") -> None:
        """Raises where a run has no such interval."""
        if self.interval is not None:
            from gelgt.inference import bounds_of

            bounds_of(run, self.interval)


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
