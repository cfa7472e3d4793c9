"""The section on recommendations says what the lists of the run folder hold."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pages import metrics_of, update, words

from gelgt.report import write_report
from gelgt.report.run import Run
from gelgt.report.sections import headline, recommendation, scores, slices

KIND = "recommendation"


def lists(folder: Path) -> Any:
    return pq.read_table(folder / "predictions" / "test.parquet").to_pandas()


def test_other_tasks_have_no_such_section(made_run: Any) -> None:
    assert recommendation.section(Run(made_run())) is None


def test_headline_says_what_is_recommended_to_whom(made_run: Any) -> None:
    text = words(headline.header(Run(made_run(KIND))))
    assert (
        "Recommends to each row of customers the 5 rows of products that churn will most likely "
        "name, over the 30 days after the seed time." in text
    )
    assert "best baseline, most popular." in text
    assert "Recommended table products, 420 rows" in text


def test_scores_have_intervals_and_say_what_baselines_are(made_run: Any) -> None:
    folder = made_run(KIND)
    run = Run(folder)
    text = words(scores.section(run).body)
    assert run.intervals is not None
    stored = metrics_of(folder)
    assert run.intervals.models["gelgt"].value == pytest.approx(stored["metrics"]["test"]["map"])
    assert run.intervals.models["popular"].value == pytest.approx(
        stored["baselines"]["popular"]["test"]["map"]
    )
    assert "bootstrap resamples of the entities of the 600 test rows" in text
    assert "Scores are of the first 5 recommendations" in text
    assert "what everyone has had lately" in text
    assert "4 % of the training labels name rows that the entity has had before" in text
    assert "windows have closed" not in text
    assert "but predictions/test.parquet gives" not in text


def test_hits_coverage_and_popularity_equal_the_lists(made_run: Any) -> None:
    folder = made_run(KIND)
    rows = lists(folder)
    html = recommendation.section(Run(folder)).body  # type: ignore[union-attr]
    text = words(html)
    first = np.mean([p[0] in set(y) for p, y in zip(rows["prediction"], rows["label"])])
    assert f"rank 1: {first:.0%}".replace("%", " %") in text
    named = set(np.concatenate(rows["prediction"]))
    right = set(np.concatenate(rows["label"]))
    assert (
        f"gelgt recommends {len(named)} different rows to anyone; of the {len(right)} rows that "
        f"were right for anyone, it recommends {len(named & right)}." in text
    )
    assert "its recommendations are more popular than what was right" in text
    most = rows["prediction"].explode().value_counts()
    assert f"{most.head(10).sum() / most.sum():.0%}".replace("%", " %") in text
    assert "hit rate@5" in text


def test_locality_has_every_path(made_run: Any) -> None:
    text = words(recommendation.section(Run(made_run(KIND))).body)  # type: ignore[union-attr]
    assert "customers ← orders → products 31 %" in text
    assert "order_items → 12 %" in text  # a long path without its ends
    assert "popular lately 50 %" in text
    assert "all candidates 62 %" in text


def test_examples_mark_what_was_right(made_run: Any) -> None:
    folder = made_run(KIND)
    rows = lists(folder)
    html = recommendation.section(Run(folder)).body  # type: ignore[union-attr]
    examples = html[html.index("Examples") :]
    shown = re.findall(r'<tr><th scope="row">(\d+)</th><td>([\d-]+)</td><td>(.*?)</td>', examples)
    assert len(shown) == recommendation.EXAMPLES
    for entity, day, cell in shown:
        mine = rows[(rows["customer id"] == int(entity)) & (rows["time"] == day)]
        marked = set(re.findall(r"✓\u00a0([\w-]+)", cell))
        assert any(marked == set(p) & set(y) for p, y in zip(mine["prediction"], mine["label"])), (
            entity
        )


def test_one_seed_time_has_no_course_of_time(made_run: Any) -> None:
    folder = made_run(KIND)
    assert slices.section(Run(folder)) is not None
    for split in ("val", "test"):
        path = folder / "predictions" / f"{split}.parquet"
        table = pq.read_table(path)
        times = pa.array([table["time"][0].as_py()] * len(table), pa.timestamp("us"))
        pq.write_table(table.set_column(table.column_names.index("time"), "time", times), path)
    assert slices.section(Run(folder)) is None
    section = recommendation.section(Run(folder))
    assert section is not None
    assert "seed time</th>" not in section.body


def test_nothing_recommended_and_nothing_stored(made_run: Any) -> None:
    """A model without any list, and a run without its facts, still give a page."""
    folder = made_run(KIND)
    for split in ("val", "test"):
        path = folder / "predictions" / f"{split}.parquet"
        table = pq.read_table(path)
        empty = pa.array([[]] * len(table), table["prediction"].type)
        place = table.column_names.index("prediction")
        pq.write_table(table.set_column(place, "prediction", empty), path)
    update(folder, ranking=None)
    text = words(write_report(folder).read_text(encoding="utf-8"))
    assert "gelgt recommends 0 different rows to anyone" in text
    assert "Locality" not in text


def test_keys_are_escaped(made_run: Any) -> None:
    folder = made_run(KIND)
    path = folder / "predictions" / "test.parquet"
    table = pq.read_table(path)
    odd = pa.array([["<img src=x>"]] * len(table))
    table = table.set_column(table.column_names.index("prediction"), "prediction", odd)
    pq.write_table(table, path)
    html = write_report(folder).read_text(encoding="utf-8")
    assert "<img" not in html
    assert "&lt;img src=x&gt;" in html
