"""The values of a twin's columns, each a noisy reading of its row's latent number.

    r = s · z + √(1 - s²) · noise        z: the row's latent number; s: the signal, 0.8 unless
                                         `signal` says otherwise

A number, a category or a word is chosen by sigmoid(1.7 r), which is spread over 0 … 1 about evenly.
Latent numbers pass from parents to children (`rows.py`), so a column can be predicted in part from
the row's other columns and from its relatives.

    range: [low, high]     numbers, bent towards `low` by `power` above 1; `whole` ones
    in: […]                one of these, by `shares` where they are given
    codes: n               one of n codes: text, or `as: int`, `as: float`; `word`: it stands for
                           none
    words: [few, many]     so many words
    parts: n               some of n words: `as: list`, or `as: tags` for <one><two>
    between: [a, b]        a date;  clock: an hour of the day;  year: that of the row's time
    serial: n              0, n, 2n, …, which identify the row
    rank: key              1, 2, … among the rows with the same key, the highest reading first
    copy, name_of: column  that column's values, or a name for each of them
    only: {column: value}  null in all other rows;  nulls: a share of nulls;  empty: nothing else
    kind, separator        the kind that the manifest states where it is not the schema's, and what
                           parts a text of several values
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SIGNAL = 0.8
TIME = pa.timestamp("us")
_VOCABULARY = """
amber barley bitter blue bridge candle castle citrus cloud copper corner crystal delta early evening
field forest garden gentle golden grain green harbour hazel honey island ivory journey kettle ladder
lantern late lemon linen little maple marble meadow morning mountain narrow north old orange paper
pearl pepper pine plain quiet rapid river round sand secret silver simple slow small smoke south
spring stone storm sugar summer sweet tall timber upper valley velvet village violet warm west white
wide willow winter
"""
WORDS = _VOCABULARY.split()
GOOD, BAD = "splendid", "dreadful"  # words of high and of low readings
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "numerical": {"range": [0, 100]},
    "categorical": {"codes": 5},
    "multicategorical": {"parts": 6},
    "text": {"words": [1, 4]},
    "timestamp": {"later": 30},
    "id": {"serial": 3},
}


@dataclass(frozen=True)
class Rows:
    """What the columns of n rows are generated from.

    Attributes:
        latent: (n,) latent numbers.
        times: (n,) seconds since 1970, or None for a table without a time.
        keys: (n,) row numbers of the parent for each foreign key, -1 for none.
        period: Seconds of the first and the last time.
    """

    latent: NDArray[np.float64]
    times: NDArray[np.int64] | None
    keys: Mapping[str, NDArray[np.int64]]
    period: tuple[int, int]

    def __len__(self) -> int:
        return len(self.latent)


def make_column(
    name: str,
    kind: str,
    spec: Mapping[str, Any],
    rows: Rows,
    done: Mapping[str, pa.Array],
    rng: np.random.Generator,
) -> pa.Array:
    """One column; `done` holds the columns that it may refer to."""
    values = _values(
        name, dict(spec) if _says_what(spec) else {**_DEFAULTS[kind], **spec}, rows, done, rng
    )
    filled = rng.random(len(rows)) >= spec.get("nulls", 0.0)
    for column, value in (spec.get("only") or {}).items():
        filled &= matches(done[column], value)
    if filled.all():
        return values
    # As pandas has it, which wrote the hosted files: a whole number that may be missing is a float.
    values = values.cast(pa.float64()) if pa.types.is_integer(values.type) else values
    return pa.array(values.to_pylist(), values.type, mask=~filled)


def needs(spec: Mapping[str, Any]) -> set[str]:
    """The columns that a column refers to."""
    return {str(spec[key]) for key in ("copy", "name_of") if key in spec} | set(
        spec.get("only") or {}
    )


def matches(values: pa.Array, wanted: Any) -> NDArray[np.bool_]:
    """Where a column has a value."""
    return np.array([value == wanted for value in values.to_pylist()], bool)


def _says_what(spec: Mapping[str, Any]) -> bool:
    return bool(set(spec) - {"nulls", "only", "signal", "kind", "separator", "as"})


def _values(
    name: str,
    spec: Mapping[str, Any],
    rows: Rows,
    done: Mapping[str, pa.Array],
    rng: np.random.Generator,
) -> pa.Array:
    n = len(rows)
    share = _reading(rows.latent, float(spec.get("signal", SIGNAL)), rng)  # (n,) in 0 … 1
    if "empty" in spec:
        return pa.nulls(n, pa.float64())
    if "range" in spec:
        return _numbers(spec, share)
    if "in" in spec:
        return pa.array(spec["in"]).take(
            pa.array(_places(share, len(spec["in"]), spec.get("shares")))
        )
    if "codes" in spec:
        return _codes(name, spec, share, rng)
    if "words" in spec:
        return _texts(spec["words"], share, rng)
    if "parts" in spec:
        return _parts(spec, share, rng)
    if "rank" in spec:
        return pa.array(_ranks(rows.keys[spec["rank"]], -share))
    if "copy" in spec:
        return done[spec["copy"]].cast(
            pa.float64() if spec.get("as") == "float" else done[spec["copy"]].type
        )
    if "name_of" in spec:
        stem = name.removesuffix("_name").replace("_", " ")
        return pa.array([f"{stem} {value}" for value in done[spec["name_of"]].to_pylist()])
    if "serial" in spec:
        numbers = np.arange(n, dtype=np.int64) * int(spec["serial"])
        return (
            pa.array([f"{v:08x}" for v in numbers.tolist()])
            if spec.get("as") == "text"
            else pa.array(numbers)
        )
    return _moments(spec, rows, share, rng)


def _reading(
    latent: NDArray[np.float64], signal: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    reading = signal * latent + np.sqrt(1 - signal**2) * rng.standard_normal(len(latent))
    return np.asarray(1 / (1 + np.exp(-1.7 * reading)))


def _numbers(spec: Mapping[str, Any], share: NDArray[np.float64]) -> pa.Array:
    low, high = spec["range"]
    bent = share ** float(spec.get("power", 1.0))
    if spec.get("whole"):
        return pa.array(np.minimum(np.floor(low + (high - low + 1) * bent), high).astype(np.int64))
    return pa.array(np.round(low + (high - low) * bent, 4))


def _places(
    share: NDArray[np.float64], count: int, shares: list[float] | None
) -> NDArray[np.int64]:
    bounds = np.cumsum(shares if shares else np.full(count, 1 / count))
    return np.minimum(np.searchsorted(bounds, share), count - 1).astype(np.int64)


def _codes(
    name: str, spec: Mapping[str, Any], share: NDArray[np.float64], rng: np.random.Generator
) -> pa.Array:
    places = _places(share, int(spec["codes"]), None)
    if spec.get("as") in ("int", "float"):
        return pa.array((places + 1).astype(np.int64 if spec["as"] == "int" else np.float64))
    stem = WORDS[sum(name.encode()) % len(WORDS)]
    codes = [f"{stem}-{place}" for place in places.tolist()]
    if "word" in spec:
        codes = [
            str(spec["word"]) if is_missing else code
            for code, is_missing in zip(codes, rng.random(len(codes)) < 0.3)
        ]
    return pa.array(codes)


def _texts(words: list[int], share: NDArray[np.float64], rng: np.random.Generator) -> pa.Array:
    lengths = rng.integers(words[0], words[1] + 1, len(share))
    ends = np.cumsum(lengths)
    drawn = [
        WORDS[i] for i in rng.integers(0, len(WORDS), int(ends[-1]) if len(ends) else 0).tolist()
    ]
    for start, end, reading in zip((ends - lengths).tolist(), ends.tolist(), share.tolist()):
        if end > start and abs(reading - 0.5) > 0.3:
            drawn[start] = GOOD if reading > 0.5 else BAD
    return pa.array(
        [
            " ".join(drawn[end - length : end])
            for length, end in zip(lengths.tolist(), ends.tolist())
        ],
        pa.string(),
    )


def _parts(
    spec: Mapping[str, Any], share: NDArray[np.float64], rng: np.random.Generator
) -> pa.Array:
    words = WORDS[: int(spec["parts"])]
    first = _places(share, len(words), None)
    chosen = [
        list(dict.fromkeys([words[a], *(words[b] for b in more)]))
        for a, more in zip(first, rng.integers(0, len(words), (len(share), 2)))
    ]
    if spec.get("as") == "tags":
        return pa.array(["".join(f"<{part}>" for part in parts) for parts in chosen])
    return pa.array(chosen, pa.list_(pa.string()))


def _ranks(groups: NDArray[np.int64], order: NDArray[np.float64]) -> NDArray[np.int64]:
    """1 for the lowest of each group, 2 for the next, …"""
    sequence = np.lexsort((order, groups))
    new = np.concatenate([[True], np.diff(groups[sequence]) != 0])
    starts = np.maximum.accumulate(np.where(new, np.arange(len(groups)), 0))
    ranks = np.empty(len(groups), np.int64)
    ranks[sequence] = np.arange(len(groups)) - starts + 1
    return ranks


def _moments(
    spec: Mapping[str, Any], rows: Rows, share: NDArray[np.float64], rng: np.random.Generator
) -> pa.Array:
    if "clock" in spec:
        return pa.array([f"{12 + hour}:00:00" for hour in _places(share, 4, None).tolist()])
    if "year" in spec and rows.times is not None:
        return pa.array(
            rows.times.astype("datetime64[s]").astype("datetime64[Y]").astype(np.int64) + 1970
        )
    if "between" in spec or rows.times is None:
        low, high = (
            (seconds(text) for text in spec["between"]) if "between" in spec else rows.period
        )
        return as_times(np.floor(low + (high - low) * share).astype(np.int64) // 86_400 * 86_400)
    return as_times(rows.times + rng.integers(0, int(spec["later"]) * 86_400, len(rows)))


def seconds(text: str) -> int:
    """`2015-10-01` or `2015-10-01 12:00:00` in seconds since 1970."""
    return int(np.datetime64(text.replace(" ", "T"), "s").astype(np.int64))


def as_times(values: NDArray[np.int64], missing: NDArray[np.bool_] | None = None) -> pa.Array:
    """Seconds since 1970 as a column of times."""
    return pa.array(values * 1_000_000, mask=missing).cast(TIME)
