"""Encodes the rows of one table in threads, and describes what was encoded: `stats.json` holds the
statistics, `features.json` row counts and findings."""

import json
import os
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa

from gelgt.features.encode import Encoded, TableEncoder
from gelgt.features.statistics import (
    FORMAT,
    CategoricalStatistics,
    FeatureStatistics,
    MulticategoricalStatistics,
)
from gelgt.meter import Work
from gelgt.schema.kinds import MAX_CATEGORIES
from gelgt.schema.model import Finding

THREADS = min(4, os.cpu_count() or 1)
BATCH_ROWS = 1 << 17
TEXT_BATCH_ROWS = 1 << 14  # texts may be long
FindingCounts = Counter[tuple[str, str]]  # (code, column) → values

_MESSAGES = {
    "non_finite": "{count:,} values of '{table}.{column}' are infinite or beyond the range of "
    "float32 and count as missing.",
    "unparsable_number": "{count:,} values of '{table}.{column}' are no numbers and count as "
    "missing.",
    "unseen_category": "{count:,} values of '{table}.{column}' are in no category list and count "
    "as missing.",
}


def batch_rows(encoder: TableEncoder) -> int:
    """How many rows are encoded at a time."""
    return TEXT_BATCH_ROWS if encoder.columns["text"] else BATCH_ROWS


def encode_rows(
    pool: ThreadPoolExecutor, encoder: TableEncoder, batches: Iterator[pa.RecordBatch], rows: int
) -> None:
    """Encode the rows of a table, a few batches at a time."""
    work = Work(f"encoding {encoder.table}", rows)
    for encoded in _encoded(pool, encoder, batches, work):
        encoder.append(encoded)


def describe_features(
    folder: Path,
    statistics: FeatureStatistics,
    rows: Mapping[str, int],
    counts: Mapping[str, FindingCounts],
) -> None:
    """Write `stats.json` and `features.json`, the last files of the features.

    Args:
        folder: The folder of the features.
        statistics: What the rows were encoded with.
        rows: Number of rows of each table.
        counts: Values of each table that count as missing.
    """
    findings = [
        _finding(code, name, column, count)
        for name in statistics.tables
        for (code, column), count in sorted(counts[name].items())
        if count
    ]
    findings += _many_categories(statistics)
    statistics.save(folder / "stats.json")
    meta = {
        "format": FORMAT,
        "rows": {name: rows[name] for name in statistics.tables},
        "findings": [finding.to_dict() for finding in findings],
    }
    (folder / "features.json").write_text(json.dumps(meta, ensure_ascii=False), encoding="utf-8")


def _encoded(
    pool: ThreadPoolExecutor,
    encoder: TableEncoder,
    batches: Iterator[pa.RecordBatch],
    work: Work,
) -> Iterator[Encoded]:
    """Results in the order of the batches, a few of which are encoded at a time."""
    running: deque[Future[Encoded]] = deque()
    start = 0
    try:
        for batch in batches:
            running.append(pool.submit(partial(encoder.encode, start, batch)))
            start += batch.num_rows
            work(batch.num_rows)
            if len(running) > THREADS:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for future in running:
            future.cancel()


def _finding(code: str, table: str, column: str, count: int) -> Finding:
    message = _MESSAGES[code].format(count=count, table=table, column=column)
    return Finding(code, table, column, count, message)


def _many_categories(statistics: FeatureStatistics) -> list[Finding]:
    return [
        Finding(
            "many_categories",
            table,
            column,
            s.dropped,
            f"'{table}.{column}' has {s.dropped + len(s.categories):,} categories; "
            f"all but the {MAX_CATEGORIES:,} most frequent count as missing.",
        )
        for table, columns in statistics.tables.items()
        for column, s in columns.items()
        if isinstance(s, CategoricalStatistics | MulticategoricalStatistics) and s.dropped
    ]
