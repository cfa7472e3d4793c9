"""Default split times: the last tenth of the time range is for testing, the tenth before it for
validation."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from gelgt.schema.model import TableSchema
from gelgt.sources.probe import StagedProbe

_DAY = 86_400 * 10**6  # µs


def split_times(
    tables: Mapping[str, TableSchema], probe: StagedProbe
) -> tuple[str | None, str | None]:
    """Validation and test times as ISO text; None for a database without times.

    A few stray times (1970-01-01, 9999-12-31) must not stretch the range: where the middle 99.8 %
    of the rows span less than half of it, their range is split.
    """
    spans = []
    for name, table in tables.items():
        column = probe.tables[name].columns[table.time_col] if table.time_col else None
        if column is None or column.low is None or column.high is None:
            continue
        core = probe.one(
            f"SELECT quantile_disc(epoch_us({column.stored}), [0.001, 0.999]) FROM "
            f"{probe.relation(name)}"
        )[0]
        spans.append((int(column.low), int(column.high), int(core[0]), int(core[1])))
    if not spans:
        return None, None
    low, high = min(s[0] for s in spans), max(s[1] for s in spans)
    core_low, core_high = min(s[2] for s in spans), max(s[3] for s in spans)
    if core_high - core_low < (high - low) / 2:
        low, high = core_low, core_high
    span = high - low
    return _iso(high - span // 5, span), _iso(high - span // 10, span)


def _iso(micros: int, span: int) -> str:
    """Whole days in a range of at least 100 days."""
    if span >= 100 * _DAY:
        micros -= micros % _DAY
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    text = moment.strftime("%Y-%m-%d %H:%M:%S").replace(" 00:00:00", "")
    return text if len(text.split("-")[0]) == 4 else moment.isoformat()
