"""The whole page: every section for every task type, nothing from outside, nothing that runs, the
same bytes each time."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from gelgt.errors import GelgtError
from gelgt.report import write_report
from gelgt.runs.record import FORMAT

ODD = """<script>alert("1")</script><img src=x onerror=alert(1)> & 'x'"""
KINDS = (
    "binary_classification",
    "regression",
    "multiclass_classification",
    "multilabel_classification",
    "recommendation",
)
MakeRun = Callable[..., Path]
VOID = {"meta", "br"}
ANCHORS = [
    "scores",
    "recommendations",
    "learning",
    "outcome",
    "calibration",
    "slices",
    "profile",
    "attention",
    "setup",
]


class Page(HTMLParser):
    """Checks that tags close in order and keeps what a browser would act on."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def write(folder: Path, name: str, content: Any) -> None:
    (folder / name).write_text(json.dumps(content), encoding="utf-8")


def change(folder: Path, **values: Any) -> None:
    """Replace top-level values of metrics.json."""
    write(folder, "metrics.json", json.loads((folder / "metrics.json").read_text()) | values)


def page(folder: Path) -> str:
    return write_report(folder).read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_sections_in_order_and_self_contained(made_run: MakeRun, kind: str) -> None:
    text = page(made_run(kind))
    anchors = re.findall(r'<section id="(\w+)"', text)
    absent = {
        "binary_classification": {"recommendations"},
        "regression": {"recommendations"},
        "multiclass_classification": {"recommendations"},
        "recommendation": {"outcome", "calibration"},
    }.get(kind, {"recommendations", "calibration"})
    assert anchors == [anchor for anchor in ANCHORS if anchor not in absent]
    assert "Left out" not in text
    parsed = Page(text)
    assert "script" not in parsed.tags
    assert "link" not in parsed.tags
    assert "img" not in parsed.tags
    assert not [name for name, _ in parsed.attributes if name == "src" or name.startswith("on")]
    assert all(
        value and value.startswith("#") for name, value in parsed.attributes if name == "href"
    )
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert "nan" not in re.sub(r"<style>.*?</style>", "", text, flags=re.S).lower()


def test_same_bytes_twice(made_run: MakeRun, tmp_path: Path) -> None:
    folder = made_run()
    first = write_report(folder, tmp_path / "a" / "one.html")
    second = write_report(folder, tmp_path / "two.html")
    assert first == tmp_path / "a" / "one.html"
    assert first.read_bytes() == second.read_bytes()
    assert write_report(folder) == folder / "report.html"
    assert not list(folder.glob("*.tmp"))


def test_everything_from_data_is_escaped(made_run: MakeRun) -> None:
    folder = made_run("multiclass_classification")
    told = json.loads((folder / "metrics.json").read_text())
    task = told["task"] | {
        "name": ODD,
        "entity_table": ODD,
        "target": ODD,
        "sentence": ODD,
        "sql": ODD,
        "timedelta": ODD,
    }
    data = told["data"] | {"source": ODD, "name": ODD, "hash": ODD, "tables": {ODD: 3}}
    change(
        folder,
        run=ODD,
        preset=ODD,
        regime=ODD,
        horizon=ODD,
        task=task,
        data=data,
        baselines={ODD: told["baselines"]["lightgbm"]},
        phases={ODD: 1.0},
        machine={ODD: ODD},
        versions={"gelgt": ODD, ODD: ODD},
        config={ODD: {ODD: ODD}, "x": [ODD]},
        metrics={split: scores | {ODD: 1.0} for split, scores in told["metrics"].items()},
    )
    profile = json.loads((folder / "profile.json").read_text())
    profile["bias"][0]["layer"] = ODD
    profile["bias"][0]["kernels"][0]["text"] = ODD
    profile["attention"]["by_table"] = profile["attention"]["rows_by_table"] = {ODD: 1.0}
    profile["attention"]["by_hop"] = {ODD: 1.0}
    write(folder, "profile.json", profile)
    text = page(folder)
    parsed = Page(text)
    assert "script" not in parsed.tags
    assert "img" not in parsed.tags
    assert "<script" not in text
    assert text.count("&lt;script&gt;") > 20


def test_classes_from_the_predictions_are_escaped(made_run: MakeRun) -> None:
    import pyarrow.parquet as pq

    folder = made_run("multiclass_classification")
    for split in ("val", "test"):
        path = folder / "predictions" / f"{split}.parquet"
        table = pq.read_table(path)
        pq.write_table(
            table.rename_columns([n.replace("delivered", ODD) for n in table.column_names]), path
        )
    assert "img" not in Page(page(folder)).tags


def test_missing_parts_are_named(made_run: MakeRun) -> None:
    folder = made_run()
    shutil.rmtree(folder / "predictions")
    (folder / "profile.json").unlink()
    change(
        folder,
        baselines={},
        epochs=[],
        best_epoch=None,
        metrics={"val": {"roc_auc": 0.71}},
        phases={},
        machine={},
        config={},
    )
    text = page(folder)
    assert text.count("Left out") == 6
    assert "profile.json is not in the run folder" in text
    assert "metrics.json lists no epochs" in text
    assert "No intervals: the run folder has no predictions/test.parquet" in text
    assert "gelgt reaches a validation ROC-AUC of 0.710. No baseline was scored beside it." in text
    assert "have not been scored" in text


def test_least_run_there_can_be(tmp_path: Path) -> None:
    write(
        tmp_path,
        "metrics.json",
        {"task": {"name": "t", "task_type": "recommendation"}, "metric": "map", "metrics": {}},
    )
    text = page(tmp_path)
    assert "This run has no MAP yet." in text
    assert "the run folder has no predictions with labels" in text
    assert "no chart for tasks of type" not in text


def test_empty_profile_and_unlabelled_predictions(made_run: MakeRun) -> None:
    import pyarrow.parquet as pq

    folder = made_run()
    write(folder, "profile.json", {})
    path = folder / "predictions" / "test.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["label"]), path)
    text = page(folder)
    assert "this model has no temporal bias" in text
    assert "600 validation rows" in text  # the charts fall back to validation


@pytest.mark.parametrize("epochs", [1, 2, 300])
def test_few_and_many_epochs(made_run: MakeRun, epochs: int) -> None:
    text = page(made_run(epochs=epochs))
    assert f"Best at epoch {min(7, epochs)}" in text


def test_password_never_shown(made_run: MakeRun) -> None:
    folder = made_run()
    data = json.loads((folder / "metrics.json").read_text())["data"]
    change(
        folder,
        data=data | {"name": "", "source": "postgresql://ann:s3cret@host/shop"},
        command="gelgt train mysql://a:s3cret@h/s x",
    )
    text = page(folder)
    assert "s3cret" not in text
    assert "mysql://a@h/s" in text


def test_errors_say_what_to_do(tmp_path: Path, made_run: MakeRun) -> None:
    with pytest.raises(GelgtError, match="There is no folder") as missing:
        write_report(tmp_path / "nowhere")
    assert missing.value.code == "no_run"
    with pytest.raises(GelgtError, match="is not a run folder") as empty:
        write_report(tmp_path)
    assert empty.value.code == "no_run"
    folder = made_run()
    (tmp_path / "file").write_text("")
    with pytest.raises(GelgtError, match="cannot be written") as blocked:
        write_report(folder, tmp_path / "file" / "report.html")
    assert blocked.value.code == "cannot_write"
    change(folder, format=FORMAT + 1)
    with pytest.raises(GelgtError, match=f"has format {FORMAT + 1}") as newer:
        write_report(folder)
    assert newer.value.code == "newer_run"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.json", "{"),
        ("metrics.json", "[]"),
        ("metrics.json", '{"metric": 3}'),
        ("profile.json", '{"bias": 1}'),
    ],
)
def test_broken_files(made_run: MakeRun, name: str, content: str) -> None:
    folder = made_run()
    (folder / name).write_text(content)
    with pytest.raises(GelgtError, match=name) as broken:
        write_report(folder)
    assert broken.value.code == "broken_run"
    assert not (folder / "report.html").exists()


def test_no_torch(made_run: MakeRun) -> None:
    folder = made_run()
    program = (
        "import sys, gelgt.report as r; r.write_report(sys.argv[1]); print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
