"""The columns of a suite, and the variants that are trained for them.

A run of the model gives four columns: its network alone, what the network predicts without the
graph, its trees alone, and all together. A variant (`--variant NAME:model.x=y`) is the same model
with other settings and gives two. Baselines and peers give one each.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gelgt.baselines.lightgbm import has_lightgbm
from gelgt.bench.cells import PEERS
from gelgt.bench.study import Study, Variant, fixed
from gelgt.errors import GelgtError, did_you_mean
from gelgt.presets import parse_settings

BASE = "gelgt"
NETWORK, NO_GRAPH, TREES, TOGETHER = "network", "network without graph", "trees", "together"
LIGHTGBM, TWO_HOPS, PAST = "lightgbm", "lightgbm-2hop", "entity's past"
_KINDS = {LIGHTGBM: "lightgbm", TWO_HOPS: "lightgbm-2hop", PAST: "entity-mean"}


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes:
        name: As the table calls it.
        variant: Whose runs it is read from.
        part: The part of the model that predicts; "" for the whole.
    """

    name: str
    variant: str
    part: str = ""


def parse_variants(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Variants as they are written after ``--variant``.

    Example:
        >>> parse_variants(["narrow:model.width=32,train.epochs=2"])
        {'narrow': {'model.width': 32, 'train.epochs': 2}}
    """
    variants: dict[str, dict[str, Any]] = {}
    taken = (BASE, NETWORK, NO_GRAPH, TREES, TOGETHER, *_KINDS, *PEERS)
    for text in texts:
        name, colon, rest = text.partition(":")
        name = name.strip()
        # a value may be a list with commas: a setting begins at its path
        settings = parse_settings(re.split(r",(?=\s*\w+\.\w+=)", rest)) if rest.strip() else {}
        if not colon or not settings or not re.fullmatch(r"[\w.+-]+", name):
            raise GelgtError(
                "bad_variant",
                f"'{text}' is not a variant.",
                hint="Write a name and the settings that differ: narrow:model.width=32.",
            )
        if name in taken or name in variants:
            raise GelgtError(
                "bad_variant",
                f"The suite has a column '{name}' already.",
                hint="Give the variant another name.",
            )
        variants[name] = settings
    return variants


def check_peers(names: Sequence[str]) -> None:
    """Raises for a peer that is not known."""
    for name in names:
        if name not in PEERS:
            raise GelgtError(
                "unknown_peer", f"There is no peer '{name}'.", hint=did_you_mean(name, PEERS)
            )


def suite_study(variants: Mapping[str, Mapping[str, Any]], peers: Sequence[str]) -> Study:
    """What is trained on each task: the model, its variants, baselines and peers. LightGBM is left
    out where it is not installed."""
    models = [
        Variant(BASE),
        *(Variant(name, settings=fixed(settings)) for name, settings in variants.items()),
    ]
    others = [Variant(name, kind) for name, kind in _KINDS.items() if name == PAST or _has_trees()]
    return Study(
        "suite",
        "Every task of the databases",
        (*models, *others, *(Variant(name, name) for name in peers)),
        BASE,
    )


def suite_columns(study: Study) -> list[Column]:
    """The columns of the table, from left to right."""
    columns = [Column(NETWORK, BASE, NETWORK), Column(NO_GRAPH, BASE, "columns")]
    if _has_trees():
        columns.append(Column(TREES, BASE, TREES))
    columns.append(Column(TOGETHER, BASE))
    columns += [Column(v.name, v.name) for v in study.variants if v.kind != BASE]
    for variant in study.variants[1:]:
        if variant.kind == BASE:
            columns += [
                Column(f"{variant.name} {NETWORK}", variant.name, NETWORK),
                Column(f"{variant.name} {TOGETHER}", variant.name),
            ]
    return columns


def pairs(columns: Sequence[Column]) -> list[tuple[str, str]]:
    """The columns that are compared, (one, other): the base model comes first, so that a difference
    is its gain. The network minus the network without the graph is what its second stage gains,
    which reads the columns once more: how much of it the graph has, a variant says whose subgraphs
    are the seed's row alone (``sampling.budget=1``)."""
    names = [column.name for column in columns]
    compared = [(TOGETHER, c.name) for c in columns if c.variant != BASE and not c.part]
    compared = [pair for pair in compared if not pair[1].endswith(f" {TOGETHER}")]
    compared = [(TOGETHER, part) for part in (NETWORK, TREES) if part in names] + compared
    compared += [(NETWORK, part) for part in (NO_GRAPH, TREES) if part in names]
    for column in columns:
        if column.name.endswith((f" {NETWORK}", f" {TOGETHER}")):
            compared.append((NETWORK if column.part else TOGETHER, column.name))
    return compared


def _has_trees() -> bool:
    return has_lightgbm()
