"""Options that several verbs share, and what the words of a user on the command line mean."""

import re
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from gelgt.errors import GelgtError, did_you_mean

SourceArg = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="RelBench folder or name, database URL, SQLite or DuckDB file, folder of CSV or "
        "Parquet files.",
    ),
]
DefinitionArg = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="PREDICT sentence, task name or folder, DuckDB SQL or .sql file, or a .csv/.parquet "
        "file of labels.",
    ),
]
RunArg = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run folder, as gelgt train leaves it.")
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
SchemaOption = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        help="YAML file with keys, times and kinds to use instead of inferred ones.",
    ),
]
TablesOption = Annotated[
    str | None,
    typer.Option("--tables", metavar="A,B", help="Read only these tables, separated by commas."),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option("--namespace", metavar="NAME", help="Schema of a SQL database, such as public."),
]

NameOption = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Name of the task.")]
ValOption = Annotated[str | None, typer.Option("--val", metavar="T", help="Validation time.")]
TestOption = Annotated[str | None, typer.Option("--test", metavar="T", help="Test time.")]
EvalTimestampsOption = Annotated[
    int | None,
    typer.Option(
        "--eval-timestamps", metavar="N", help="Windows in validation and test; as many as fit."
    ),
]
MaxRowsOption = Annotated[
    int,
    typer.Option("--max-rows", metavar="N", help="Training rows above this number are sampled."),
]
TimedeltaOption = Annotated[
    str | None,
    typer.Option(
        "--timedelta",
        metavar="D",
        help="How far labels look ahead, such as '30 days' (SQL and files).",
    ),
]
EntityOption = Annotated[
    str | None,
    typer.Option("--entity", metavar="T.C", help="Entity as table.column (SQL and files)."),
]
TaskTypeOption = Annotated[
    str | None,
    typer.Option(
        "--task-type",
        metavar="TYPE",
        help="binary_classification, regression, multiclass_classification or "
        "multilabel_classification, instead of the inferred one.",
    ),
]

PresetOption = Annotated[
    str,
    typer.Option(
        "--preset",
        metavar="NAME",
        help="cpu (small, minutes on two cores), gpu (larger), paper (the published values).",
    ),
]
ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="NAME",
        help="gelgt, or another to compare with: rdl, hgt, relgt, relgnn, … (docs/models.md).",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="a.b=c",
        help="Change one value, such as model.width=128; repeatable. See gelgt config show.",
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        "--device", metavar="NAME", help="auto (CUDA where there is one), cpu, cuda, cuda:1."
    ),
]

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def open_source(
    source: str,
    schema: Path | None,
    tables: str | None,
    namespace: str | None,
    out: Path | None = None,
) -> Any:
    """Open what the user named on the command line."""
    from gelgt.sources import open

    only = [name.strip() for name in tables.split(",") if name.strip()] if tables else None
    return open(source, schema=schema, tables=only, namespace=namespace, out=out)


def address_of(source: str) -> str:
    """What the user named, without its password.

    >>> address_of("postgresql://ann:secret@host/shop"), address_of("exports/")
    ('postgresql://ann@host/shop', 'exports/')
    """
    if "://" not in source or source.startswith(("hf://", "duckdb://")):
        return source
    # with SQLAlchemy, which a machine without SQL sources may lack
    from gelgt.sources.address import safe_address
    from gelgt.sources.sql import parse_url

    return safe_address(parse_url(source))


def one_of(option: str, value: str, known: Iterable[str]) -> str:
    """The value, if it is one of those that an option knows."""
    known = tuple(known)
    if value not in known:
        raise GelgtError(
            "bad_option", f"{option} {value} is not known.", hint=did_you_mean(value, known)
        )
    return value


def seconds(text: str) -> float:
    """A duration as it is written after --time-limit.

    >>> seconds("90s"), seconds("10m"), seconds("1h30m")
    (90.0, 600.0, 5400.0)
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([smhd])[a-z]*", text.lower())
    rest = re.sub(r"(\d+(?:\.\d+)?)\s*([smhd])[a-z]*", "", text.lower()).strip()
    total = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if rest or total <= 0:
        raise GelgtError(
            "bad_duration", f"'{text}' is no duration.", hint="Write it like 90s, 10m or 2h."
        )
    return total


def epoch_seconds(text: str, role: str) -> int:
    """A time as seconds since 1970."""
    from gelgt.tasks.times import timestamp

    return int(timestamp(text, role).timestamp())


def typed_command(source: str, address: str) -> str:
    """What the user typed, the source without its password."""
    return shlex.join(["gelgt", *(address if word == source else word for word in sys.argv[1:])])
