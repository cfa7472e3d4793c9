"""Files of predictions: whole or not there, the same rows whatever the form, and flat memory."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gelgt import GelgtError, Prediction
from gelgt.inference import Predictor, write_predictions
from gelgt.inference.write import GROUP_ROWS
from gelgt.training import Run

from .conftest import Twins


@pytest.mark.parametrize("ending", ["parquet", "csv", "CSV"])
def test_a_file_holds_the_frame(
    twins: Twins, binary_run: Run, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gelgt.inference.predictor.CHUNK", 32)
    predictor = Predictor(binary_run, twins.whole)
    chosen = predictor.seeds(at=twins.at)
    path = tmp_path / "deep" / f"out.{ending}"
    assert write_predictions(predictor.predict_table(chosen.rows, chosen.times), path) == len(
        chosen
    )
    expected = predictor.predict(at=twins.at).to_pandas()
    found = (
        pd.read_parquet(path) if ending == "parquet" else pd.read_csv(path, parse_dates=["time"])
    )
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, check_exact=True)
    assert os.listdir(path.parent) == [path.name]
    predictor.predict(at=twins.at).save(tmp_path / f"again.{ending}")
    assert (tmp_path / f"again.{ending}").read_bytes() == path.read_bytes()


def chunks(count: int, rows: int = 1000) -> Iterator[pa.Table]:
    for number in range(count):
        yield pa.table(
            {"id": range(number * rows, (number + 1) * rows), "prediction": [0.5] * rows}
        )


def test_row_groups(tmp_path: Path) -> None:
    assert write_predictions(chunks(200), tmp_path / "out.parquet") == 200_000
    file = pq.ParquetFile(tmp_path / "out.parquet")
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [
        66_000,
        66_000,
        66_000,
        2_000,
    ]
    assert file.read().column("id").to_pylist() == list(range(200_000))
    assert GROUP_ROWS <= 66_000


def test_lists_and_empty_tables(tmp_path: Path) -> None:
    table = pa.table(
        {"id": ["a;b", 'q"'], "prediction": pa.array([["x", "ü"], []], pa.list_(pa.string()))}
    )
    write_predictions([table, table.slice(0, 0)], tmp_path / "out.csv")
    found = pd.read_csv(tmp_path / "out.csv")
    assert found["id"].tolist() == ["a;b", 'q"']
    assert [json.loads(text) for text in found["prediction"]] == [["x", "ü"], []]
    assert write_predictions([table.slice(0, 0)], tmp_path / "none.parquet") == 0
    assert pq.read_schema(tmp_path / "none.parquet") == table.schema


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize(
    "wrong", [KeyboardInterrupt, GelgtError("no_luck", "None at all."), ValueError]
)
def test_nothing_is_half_written(
    tmp_path: Path, ending: str, wrong: type[BaseException] | BaseException
) -> None:
    path = tmp_path / f"out.{ending}"
    path.write_text("before")

    def broken() -> Iterator[pa.Table]:
        yield from chunks(100)
        raise wrong

    with pytest.raises(wrong if isinstance(wrong, type) else type(wrong)):
        write_predictions(broken(), path)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == [path.name]


def test_places_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "file").write_text("x")
    for path, code in {
        "out.xlsx": "unknown_format",
        "out": "unknown_format",
        "folder.csv": "cannot_write",
        "file/out.csv": "cannot_write",
    }.items():
        with pytest.raises(GelgtError) as caught:
            write_predictions(chunks(1), tmp_path / path)
        assert caught.value.code == code
    with pytest.raises(GelgtError, match="no predictions"):
        write_predictions([], tmp_path / "out.csv")
    with pytest.raises(GelgtError):
        Prediction(pa.table({"a": [1]})).save(tmp_path / "out.txt")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder.csv"]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_what_is_written_is_let_go(tmp_path: Path, ending: str) -> None:
    peaks = []
    for count in (16, 160):
        held: list[int] = []

        def watched(count: int = count, held: list[int] = held) -> Iterator[pa.Table]:
            for number in range(count):
                held.append(pa.total_allocated_bytes())
                yield pa.table(
                    {"id": np.arange(8192) + number * 8192, "probability": np.full(8192, 0.5)}
                )

        assert write_predictions(watched(), tmp_path / f"{count}.{ending}") == count * 8192
        peaks.append(max(held) - held[0])
    assert peaks[1] < 1.5 * peaks[0] + 2**20


@pytest.mark.slow
def test_memory_does_not_grow_with_the_output(
    twins: Twins, binary_run: Run, tmp_path: Path
) -> None:
    """Peak memory of two fresh processes, one with ten times the rows of the other."""
    code = """
import resource, sys
import numpy as np
from gelgt.inference import Predictor, write_predictions
from gelgt.training import load_run
run, folder, rows, out = sys.argv[1:]
predictor = Predictor(load_run(run), folder, device="cpu")
chosen = predictor.seeds(at="2024-09-01")
many = np.resize(chosen.rows, int(rows))
write_predictions(predictor.predict_table(many, np.broadcast_to(chosen.times[:1], len(many))), out)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    peaks = []
    for rows in (10_000, 100_000):
        arguments = [
            str(binary_run.folder),
            str(twins.whole.folder),
            str(rows),
            str(tmp_path / f"{rows}.parquet"),
        ]
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        peaks.append(int(done.stdout) / 1024)
    assert pq.read_metadata(tmp_path / "100000.parquet").num_rows == 100_000
    assert peaks[1] - peaks[0] < 60, f"{peaks} MiB"
