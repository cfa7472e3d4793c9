"""The options of `gelgt predict` for a population in parts: how many, which one, and who makes
them."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gelgt.cli.options import AddressOption
from gelgt.cli.parse import one_of
from gelgt.errors import GelgtError

if TYPE_CHECKING:
    from gelgt.cli.predict_options import SeedOptions


@dataclass(frozen=True)
class ShardOptions:
    """Parts of a population, in a folder."""

    shards: Annotated[
        int | None,
        typer.Option(
            "--shards",
            metavar="N",
            min=1,
            help="Write N files to the folder --out, divided by a hash of the key; started again "
            "it makes only what is missing.",
        ),
    ] = None
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard",
            metavar="I/N",
            help="Make one of N files, 0/N to N-1/N, for jobs that divide the work; needs --at.",
        ),
    ] = None
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine", metavar="NAME", help="ray: make the files on a Ray cluster (gelgt[ray])."
        ),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            help="Workers of --engine ray; by default what fits the cluster.",
        ),
    ] = None
    address: AddressOption = None

    @property
    def is_given(self) -> bool:
        """Whether predictions go to a folder, in parts."""
        return (self.shards, self.shard, self.engine) != (None, None, None)

    def check(self, seeds: "SeedOptions", out: str | None) -> None:
        """Raises where options do not go together."""
        if not self.is_given:
            if (self.workers, self.address) != (None, None):
                raise GelgtError(
                    "bad_option",
                    "--workers and --address are options of --engine ray.",
                    hint="Add --engine ray.",
                )
            return
        if self.engine is not None:
            one_of("--engine", self.engine, ("ray",))
        given = [
            name
            for name, value in (
                ("--entities", seeds.entities),
                ("--frame", seeds.frame),
                ("--relbench", seeds.relbench),
            )
            if value is not None
        ]
        if given:
            raise GelgtError(
                "bad_option",
                f"{given[0]} cannot be combined with shards, which are of all entities.",
                hint="Leave it out.",
            )
        if self.shard is not None and (self.shards, self.engine) != (None, None):
            raise GelgtError(
                "bad_option",
                "--shard makes one part: it cannot be combined with --shards or --engine.",
                hint="Give one of them.",
            )
        self.one_of_many()
        _check_folder(out)

    def one_of_many(self) -> tuple[int, int] | None:
        """The number of a single part, and how many there are; None for all of them.

        >>> ShardOptions(shard="3/16").one_of_many()
        (3, 16)
        """
        if self.shard is None:
            return None
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", self.shard.strip())
        if match is None or int(match[1]) >= int(match[2]):
            raise GelgtError(
                "bad_option",
                f"--shard must be I/N with I from 0 to N-1, got '{self.shard}'.",
                hint="The first of 16 is 0/16, the last 15/16.",
            )
        return int(match[1]), int(match[2])


def _check_folder(out: str | None) -> None:
    if out is None:
        raise GelgtError(
            "bad_option", "Shards need a folder to go to.", hint="Give one with --out FOLDER."
        )
    from gelgt.storage.place import Place, is_storage

    if is_storage(out):
        out = str(Place.of(out))  # which refuses credentials
    if Path(out).expanduser().is_file() or Path(out).suffix.lower() in (".parquet", ".csv"):
        raise GelgtError(
            "bad_option",
            f"Shards are files in a folder, got --out {out}.",
            hint="Give a folder, such as --out predictions/",
        )
