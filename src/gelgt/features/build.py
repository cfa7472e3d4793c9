"""`open_features`: fit statistics, encode all rows, cache the arrays.

The cache entry is named after the end of the training period and the embedder, or after the given
statistics, unless an entry holds the same statistics already. `stats.json` holds the statistics,
`features.json` row counts and findings, `tables/N/` the arrays of table N.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from gelgt.errors import GelgtError, SchemaError, did_you_mean
from gelgt.features.encode import TableEncoder
from gelgt.features.fit import fit_statistics
from gelgt.features.grow import grow_features
from gelgt.features.statistics import FORMAT, FeatureStatistics
from gelgt.features.store import Features, find_features
from gelgt.features.text import HashedNgrams, TextEmbedder, embedder_from_spec
from gelgt.features.versions import write_versions
from gelgt.features.write import THREADS, batch_rows, describe_features, encode_rows
from gelgt.sources.cache import build_folder
from gelgt.sources.database import Database


def open_features(
    db: Database,
    fit_until: Any = None,
    *,
    statistics: FeatureStatistics | None = None,
    embedder: TextEmbedder | None = None,
) -> Features:
    """The row features of a database: encoded on first use, then memory-mapped. Where the database
    grew out of an older one, that one's features are extended.

    Args:
        db: The database.
        fit_until: Statistics and category lists come from rows up to this instant (text, datetime,
            NumPy or pandas; UTC unless it has a zone); the validation time by default, and every
            row of a database that has none.
        statistics: Encode with these instead, as fitted on another database. `fit_until` is then
            not used.
        embedder: How text becomes vectors; hashed n-grams by default, or what `statistics` name.

    Raises:
        SchemaError: the values of a column do not fit its kind, or a fitted table or column is
            missing.
    """
    until = None
    if statistics is not None:
        _check_drift(db, statistics)
        chosen = _fitted_embedder(statistics, embedder)
        name = f"features-v{FORMAT}-given-{statistics.key()}"
        if (cached := find_features(db.cache_dir, statistics)) is not None:
            return Features(cached)
    else:
        chosen = embedder or HashedNgrams()
        until = _microseconds(db.val_timestamp if fit_until is None else fit_until)
        name = f"features-v{FORMAT}-{'all' if until is None else until}-{_digest(chosen)}"

    def build(folder: Path) -> None:
        if not grow_features(db, folder, name, statistics, until, chosen):
            build_features(db, folder, statistics or fit_statistics(db, until, chosen), chosen)

    return Features(build_folder(db.cache_dir / name, build, is_sealed=True))


def _fitted_embedder(statistics: FeatureStatistics, embedder: TextEmbedder | None) -> TextEmbedder:
    """The embedder that statistics were fitted with."""
    chosen = embedder or embedder_from_spec(statistics.embedder)
    if chosen.spec() != dict(statistics.embedder):
        raise GelgtError(
            "other_embedder",
            f"The statistics were fitted with the embedder {dict(statistics.embedder)!r}, got "
            f"{chosen.spec()!r}.",
            hint="Pass that embedder, or none.",
        )
    return chosen


def _digest(embedder: TextEmbedder) -> str:
    spec = json.dumps(embedder.spec(), sort_keys=True)
    return blake2b(spec.encode(), digest_size=6).hexdigest()


def build_features(
    db: Database, folder: Path, statistics: FeatureStatistics, embedder: TextEmbedder
) -> None:
    """Encode every row with given statistics into an existing, empty folder."""
    rows = {name: db.num_rows(name) for name in statistics.tables}
    counts = {}
    with ThreadPoolExecutor(THREADS) as pool:
        for number, (name, columns) in enumerate(statistics.tables.items()):
            target = folder / "tables" / str(number)
            target.mkdir(parents=True)
            with TableEncoder(target, name, rows[name], columns, embedder) as encoder:
                if columns:
                    batches = db.batches(name, list(columns), batch_rows(encoder))
                    encode_rows(pool, encoder, batches, rows[name])
            dates = statistics.event_dates.get(name, ())
            write_versions(target, db, name, columns, dates, embedder)
            counts[name] = encoder.counts
    describe_features(folder, statistics, rows, counts)


def _check_drift(db: Database, statistics: FeatureStatistics) -> None:
    hint = "A model predicts on databases with the tables and columns that it was trained on."
    for table, columns in statistics.tables.items():
        if table not in db.schema.tables:
            raise SchemaError(
                "schema_drift",
                f"There is no table '{table}' any more.",
                hint=f"{did_you_mean(table, db.table_names)} {hint}",
            )
        present = db.schema.tables[table].columns
        for column in columns:
            if column not in present:
                raise SchemaError(
                    "schema_drift",
                    f"There is no column '{table}.{column}' any more.",
                    hint=f"{did_you_mean(column, present)} {hint}",
                )
    for table, dates in statistics.event_dates.items():
        for date in dates:
            if date.column not in db.schema.tables[table].columns:
                raise SchemaError(
                    "schema_drift",
                    f"There is no date '{table}.{date.column}' any more.",
                    hint=hint,
                )


def _microseconds(instant: Any) -> int | None:
    """Microseconds since 1970; a zone is honoured, without one it is UTC."""
    if instant is None:
        return None
    import pandas as pd

    try:
        stamp = pd.Timestamp(instant)
        if pd.isna(stamp):
            raise ValueError("not a time")  # None means: all rows
        stamp = stamp.tz_convert("UTC").tz_localize(None) if stamp.tzinfo else stamp
        return int(stamp.to_datetime64().astype("datetime64[us]").astype(np.int64))
    except (ValueError, TypeError) as error:
        raise GelgtError(
            "bad_time",
            f"fit_until must be a time, got {instant!r} ({error}).",
            hint="Write it as 2025-09-01 or 2025-09-01T12:00:00.",
        ) from None
