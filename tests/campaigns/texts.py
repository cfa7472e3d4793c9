"""Texts: whatever a user types or sends, mutated, is understood or refused with a GelgtError, and
what an error or an address says never holds the password.

Sentences, settings, durations, times, sizes, YAML, bodies of requests and addresses; nothing is
computed from them, so that there can be a million.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import gelgt
from campaigns.frame import Campaign
from campaigns.grammar import Grammar, mutate
from campaigns.sentences import _keys
from campaigns.shop_rows import Rows, random_rows
from campaigns.world import cached_in
from gelgt.cli.parse import address_of, epoch_seconds, seconds, sizes
from gelgt.errors import GelgtError
from gelgt.presets import RunConfig, parse_settings
from gelgt.schema.manifest import load_yaml
from gelgt.serve.document import BODIES
from gelgt.serve.questions import parse as parse_body
from gelgt.tasks.predict import parse, plan_sentence
from gelgt.tasks.times import duration, timestamp

SECRET = "Zx9hush7"
TIMES = (
    "2024-02-29", "2024-02-29 23:59:60", "2023-11-05T01:30:00+02:00", "1970-01-01", "9999-12-31",
    "1712345678", "now", "2024-W09-4", "00:00", "2024-02-30", "-0044-03-15",
)  # fmt: skip
LENGTHS = (
    "90s",
    "1h30m",
    "10m",
    "2d",
    "1.5h",
    "0s",
    "30 days",
    "1e3s",
    "P1D",
    "4 weeks",
    "-3 days",
)
NUMBERS = ("1400000,14e6", "1_000", "300,3000", "1e400", "-5", "nan", "0x10")
SETTINGS = ("model.width=128", "train.epochs=3", "model.bias=none", "model.encoders=table,hop,age",
            "train.ensemble=auto", "sampling.fanout=none", "train.rate=1e-3", "model.calendar=true",
            "train.time_limit=none", "sampling.visibility=frozen", "train.seed=-1")  # fmt: skip
BODY_TEXTS = (
    {"entities": [1, 2, 3]},
    {"entities": ["a", None, True], "at": "2024-02-01"},
    {"rows": [{"entity": 1, "time": "2024-02-01"}], "missing": "skip"},
    {"entity": 7, "at": "2024-02-01", "rows": 20, "interval": 0.9},
    {"entities": [1], "k": 10, "new_only": True},
)
ADDRESSES = (
    f"postgresql://ann:{SECRET}@host:5432/shop?sslmode=require",
    f"mysql+pymysql://ann:{SECRET}@[::1]/shop",
    f"mariadb://ann:{SECRET}@host/shop%20two",
    f"s3://key:{SECRET}@bucket/folder/file.parquet",
    f"snowflake://ann:{SECRET}@account/db/schema?warehouse=w&role=r",
)


@dataclass(frozen=True)
class World:
    rows: Rows
    db: gelgt.Database
    keys: dict[str, list[Any]]
    file: Path
    schema: str


def prepare(folder: Path) -> World:
    with cached_in(folder / "cache"):
        rows = random_rows(np.random.default_rng([7, 0]))
        db = gelgt.open(rows.frames(), schema=rows.schema())
        keys = {table: _keys(db, table) for table in rows.tables}
    schema = {"tables": {t: {"primary_key": "id", "time": None} for t in rows.tables}, "format": 3}
    return World(rows, db, keys, folder / "text.yaml", yaml.safe_dump(schema))


def case(world: World, number: int, random: np.random.Generator) -> str:
    kind = list(READERS)[number % len(READERS)]
    text = READERS[kind](world, random)
    try:
        understand(world, kind, text)
    except GelgtError as error:
        said = f"{error} {error.hint}"
        assert "Traceback" not in said
        if kind == "address":
            assert SECRET not in said, f"the password is told: {said}"
        return f"{kind}: refused"
    return f"{kind}: understood"


def understand(world: World, kind: str, text: str) -> None:
    """Read a text as what it should be."""
    if kind == "sentence":
        plan_sentence(world.db, parse(text))
    elif kind == "setting":
        RunConfig.of("cpu", None, parse_settings([text]))
    elif kind == "time":
        epoch_seconds(text, "--at")
        timestamp(text, "the validation time")
    elif kind == "length":
        seconds(text)
    elif kind == "window":
        duration(text)
    elif kind == "sizes":
        sizes(text)
    elif kind == "yaml":
        world.file.write_text(text, encoding="utf-8", errors="surrogatepass")
        load_yaml(world.file)
    elif kind == "body":
        number = len(text) % len(BODIES)
        parse_body(list(BODIES.values())[number], text.encode("utf-8", "surrogatepass"))
    else:
        said = address_of(text)
        is_whole = text.count(SECRET) == text.count(f"ann:{SECRET}@")  # where passwords stand
        assert not (is_whole and SECRET in said), f"the password is told: {said}"


def _of(texts: tuple[str, ...]) -> Callable[[World, np.random.Generator], str]:
    return lambda world, random: mutate(texts[int(random.integers(len(texts)))], random)


def _sentence(world: World, random: np.random.Generator) -> str:
    return mutate(Grammar(random, world.keys).sentence()[0], random)


READERS: dict[str, Callable[[World, np.random.Generator], str]] = {
    "sentence": _sentence,
    "setting": _of(SETTINGS),
    "time": _of(TIMES),
    "length": _of(LENGTHS),
    "window": _of(LENGTHS),
    "sizes": _of(NUMBERS),
    "yaml": lambda world, random: mutate(world.schema, random),
    "body": _of(tuple(json.dumps(body) for body in BODY_TEXTS)),
    "address": _of(ADDRESSES),
}
CAMPAIGN = Campaign("texts", prepare, case, long=1_000_000, short=900)
