"""Frozen configurations. A value that is derived is derived in one place and keeps its reason."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gelgt.errors import GelgtError

Strategy = Literal["bfs", "random", "recent", "full"]
Causality = Literal["strict", "inclusive"]
Visibility = Literal["frozen", "seed-time"]


class Config(BaseModel):
    """Frozen, and strict about names: an unknown or wrong value is a GelgtError that says what is allowed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, **values: object) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or type(self).__name__
            known = ", ".join(type(self).model_fields)
            hint = f"{type(self).__name__} has {known}." if first["type"] == "extra_forbidden" else first["msg"] + "."
            raise GelgtError("bad_config", f"{where} = {first.get('input')!r} is not possible.", hint=hint) from None


class SamplingConfig(Config):
    """How the causal neighbourhood of a seed is sampled (DESIGN.md section 4; paper, section 3.1).

    Attributes:
        strategy: ``bfs`` (the paper), ``random`` (uniform over the neighbourhood, the ablation), ``recent`` (half by breadth-first search,
            half the newest rows of any table), ``full`` (everything within `hops`, whatever the budget).
        hops: Depth of the search.
        budget: Most rows of a subgraph, the seed included.
        causality: ``strict`` admits rows before the seed time, ``inclusive`` also rows at it (autocomplete).
        order: In which order children are visited, and so which are cut off: ``recent`` or ``random``.
        seed: Of the random orders.
        visibility: ``frozen`` hides rows after the horizon, ``seed-time`` shows all rows before each seed's own time.
        horizon: Seconds since 1970 from which ages are measured at the latest; the test time under ``frozen``.
    """

    strategy: Strategy = "bfs"
    hops: int = Field(default=2, ge=1, le=16)
    budget: int = Field(default=300, ge=1, le=1_000_000)
    causality: Causality = "strict"
    order: Literal["recent", "random"] = "recent"
    seed: int = Field(default=0, ge=0, lt=2**63)
    visibility: Visibility = "seed-time"
    horizon: int | None = None
