"""The options that several commands share; those of a source, a task and a run are bundles."""

import atexit
import gc
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gelgt.cli.parse import address_of
from gelgt.meter import is_heard

if TYPE_CHECKING:
    from gelgt.inference import Opened
    from gelgt.runs.folder import Run
    from gelgt.sources import Database
    from gelgt.tasks import Task

RunArg = Annotated[
    Path, typer.Argument(metavar="RUN", help="Run folder, as gelgt train writes it.")
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="Ray cluster of --engine ray, or auto; by default processes on this machine.",
    ),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
NamespaceOption = Annotated[
    str | None,
    typer.Option("--namespace", metavar="NAME", help="Schema of a SQL database, such as public."),
]
FreshFlag = Annotated[
    bool,
    typer.Option("--fresh", help="Read the source again even if it has not changed."),
]
PresetOption = Annotated[
    str,
    typer.Option(
        "--preset",
        metavar="NAME",
        help="cpu (small, minutes on two cores), gpu (larger) or paper (the published values).",
    ),
]
ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="NAME",
        help="gelgt, or a model to compare it with: rdl, hgt, relgt, relgnn, … (docs/models.md).",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="a.b=c",
        help="Change one setting, such as model.width=128; repeatable. gelgt config show lists "
        "them.",
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option("--device", metavar="NAME", help="auto (CUDA if available), cpu, cuda or cuda:1."),
]
VisibilityOption = Annotated[
    str | None,
    typer.Option(
        "--visibility",
        metavar="REGIME",
        help="Rows that a seed may see: frozen (up to the test time; default for RelBench data) or "
        "seed-time (before its own seed time; default otherwise).",
    ),
]
DatasetOption = Annotated[
    str,
    typer.Option("--dataset", metavar="SOURCE", help="RelBench folder or name, or another source."),
]
RelbenchOption = Annotated[
    Path, typer.Option("--dataset", metavar="FOLDER", help="RelBench folder, such as rel-f1.")
]
SeedTaskOption = Annotated[
    str, typer.Option("--task", metavar="NAME", help="Task of the data set that gives the seeds.")
]
FolderOption = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FOLDER", help="Folder for the tables; runs/bench/DATASET by default."
    ),
]


@dataclass(frozen=True)
class SourceOptions:
    """Where the data comes from, and what replaces the inferred schema."""

    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="RelBench folder or name, database URL, SQLite or DuckDB file, or folder of CSV "
            "or Parquet files, here or in object storage (s3://, gs://, az://).",
        ),
    ]
    schema: Annotated[
        Path | None,
        typer.Option(
            "--schema",
            metavar="FILE",
            help="YAML file with keys, time columns and column kinds that replace inferred ones.",
        ),
    ] = None
    tables: Annotated[
        str | None,
        typer.Option(
            "--tables", metavar="A,B", help="Read only these tables, separated by commas."
        ),
    ] = None
    namespace: NamespaceOption = None
    fresh: FreshFlag = False

    def open(self, out: Path | None = None) -> "Database":
        """Open the source; import it to the folder `out` if one is given."""
        from gelgt.cli.waiting import working
        from gelgt.sources import open

        names = [name.strip() for name in (self.tables or "").split(",") if name.strip()] or None
        with nullcontext() if is_heard() else working("opening the source"):
            return open(
                self.source,
                schema=self.schema,
                tables=names,
                namespace=self.namespace,
                out=out,
                fresh=self.fresh,
            )


@dataclass(frozen=True)
class TaskOptions:
    """What is to be predicted, and how it is split."""

    definition: Annotated[
        str,
        typer.Argument(
            metavar="TASK",
            help="PREDICT sentence, task name or folder, DuckDB SQL or .sql file, or .csv/.parquet "
            "file of labels.",
        ),
    ]
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the task.")
    ] = None
    val: Annotated[
        str | None,
        typer.Option(
            "--val",
            metavar="T",
            help="Validation time: the training labels end here. By default the manifest's, else "
            "80 % into the time range.",
        ),
    ] = None
    test: Annotated[
        str | None,
        typer.Option(
            "--test",
            metavar="T",
            help="Test time: the validation labels end here. By default the manifest's, else 90 % "
            "into the time range.",
        ),
    ] = None
    eval_timestamps: Annotated[
        int | None,
        typer.Option(
            "--eval-timestamps",
            metavar="N",
            help="Seed times of validation and of test; by default as many as fit.",
        ),
    ] = None
    max_rows: Annotated[
        int,
        typer.Option(
            "--max-rows", metavar="N", help="Most training labels; of more, a sample is used."
        ),
    ] = 2_000_000
    timedelta: Annotated[
        str | None,
        typer.Option(
            "--timedelta",
            metavar="D",
            help="Length of the label window, such as '30 days' (tasks from SQL or files).",
        ),
    ] = None
    entity: Annotated[
        str | None,
        typer.Option(
            "--entity", metavar="T.C", help="Entity as table.column (tasks from SQL or files)."
        ),
    ] = None
    task_type: Annotated[
        str | None,
        typer.Option(
            "--task-type",
            metavar="TYPE",
            help="binary_classification, regression, multiclass_classification or "
            "multilabel_classification, instead of the inferred one.",
        ),
    ] = None

    def make(self, db: "Database") -> "Task":
        """The task on a database."""
        from gelgt.tasks.definition import read_definition

        return db.task(
            read_definition(self.definition),
            name=self.name,
            val=self.val,
            test=self.test,
            eval_timestamps=self.eval_timestamps,
            max_rows=self.max_rows,
            timedelta=self.timedelta,
            entity=self.entity,
            task_type=self.task_type,
        )


@dataclass(frozen=True)
class RunOptions:
    """A run, and the source that it is used on."""

    run: RunArg
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="S",
            help="Source to read, as for gelgt train; by default the one that the run was trained "
            "on.",
        ),
    ] = None
    namespace: NamespaceOption = None
    fresh: FreshFlag = False
    device: DeviceOption = "auto"

    def load(self) -> "Run":
        """The run, and the libraries that work on it."""
        # Loading makes many objects and no garbage: looking for it takes a sixth of a prediction.
        gc.disable()
        try:
            import gelgt.inference
            import gelgt.sampling.kernels  # noqa: F401  (numba)
            from gelgt.runs.folder import load_run
        finally:
            gc.freeze()
            gc.enable()
            # DuckDB, and Triton on a GPU, report objects that are not freed at the end as leaks
            atexit.register(gc.unfreeze)
        return load_run(self.run)

    def open(self, run: "Run") -> "Opened":
        """The source, with its schema checked against the run's."""
        from gelgt.inference import open_for

        return open_for(run, self.source, namespace=self.namespace, fresh=self.fresh)

    def address(self, run: "Run") -> str:
        """The address of the source, without its password."""
        return run.record.data.source if self.source is None else address_of(self.source)
