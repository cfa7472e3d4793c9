"""A run folder from anywhere: it loads whole or not at all, and nothing in it runs."""

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gelgt
from gelgt import GelgtError
from gelgt.inference import Predictor, evaluate_run
from gelgt.runs.folder import FORMAT, REQUIRED, SUCCESS, finish_run
from gelgt.training import Run, load_run

from .conftest import Twins


@pytest.fixture
def folder(binary_run: Run, tmp_path: Path) -> Path:
    shutil.copytree(binary_run.folder, tmp_path / "run")
    return tmp_path / "run"


def refused(path: Path) -> GelgtError:
    with pytest.raises(GelgtError) as caught:
        gelgt.load(path)
    with pytest.raises(GelgtError):
        load_run(path)
    return caught.value


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_whole_copy_loads(folder: Path) -> None:
    assert gelgt.load(folder).run.folder == folder


def test_truncated_weights(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert refused(folder).code == "damaged_file"
    finish_run(folder)  # whoever cuts a file can write its checksum too
    with pytest.raises(GelgtError) as caught:
        load_run(folder).weights()
    assert caught.value.code == "damaged_file"


@pytest.mark.parametrize("name", REQUIRED)
def test_missing_and_edited_files(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content + b" ")
    assert refused(folder).code == "damaged_file"
    (folder / name).unlink()
    assert refused(folder).code == "bad_run"


@pytest.mark.parametrize("name", [n for n in REQUIRED if n != "model.safetensors"])
def test_nonsense_with_a_right_checksum(folder: Path, name: str, twins: Twins) -> None:
    for text in ("[]", "{", "{}", '{"a": 1}', "null", '"x"', "\udcff"):
        (folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))
        finish_run(folder)
        with pytest.raises(GelgtError):
            _use(folder, twins)


def _use(folder: Path, twins: Twins) -> None:
    run = load_run(folder)
    Predictor(run, twins.whole)
    evaluate_run(run)


@pytest.mark.parametrize(
    "content",
    [
        "gelgt: 3",
        "kind: forecast",
        "kind: [1]",
        "name: x\nkind: autocomplete\ntask_type: regression\nentity_table: 3",
    ],
)
def test_tasks_that_are_none(folder: Path, twins: Twins, content: str) -> None:
    (folder / "task.yaml").write_text(content)
    finish_run(folder)
    with pytest.raises(GelgtError):
        _use(folder, twins)


def test_no_success_and_other_formats(folder: Path) -> None:
    edit(folder / SUCCESS, lambda c: c.update(format=FORMAT + 1))
    assert refused(folder).code == "newer_run"
    edit(folder / SUCCESS, lambda c: c.update(format=FORMAT, files={}))
    assert refused(folder).code == "bad_run"
    (folder / SUCCESS).write_text("yes")
    assert refused(folder).code == "damaged_file"
    (folder / SUCCESS).unlink()
    assert refused(folder).code == "incomplete_run"
    assert refused(folder / "nowhere").code == "no_run"


def test_paths_that_lead_out(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text("{}")
    for name in ("../secret.json", str(tmp_path / "secret.json"), "labels/../../secret.json"):
        edit(folder / SUCCESS, lambda c, name=name: c["files"].update({name: "0"}))  # type: ignore[misc]
        assert refused(folder).code == "bad_run"
        edit(folder / SUCCESS, lambda c, name=name: c["files"].pop(name))  # type: ignore[misc]
    assert gelgt.load(folder)


class Bomb:
    """Runs code when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize(
    "name",
    ["model.safetensors", "features.json", "task.yaml", "labels/test.parquet", "profile.json"],
)
def test_a_pickle_never_runs(folder: Path, twins: Twins, tmp_path: Path, name: str) -> None:
    mark = tmp_path / "it ran"
    content = pickle.dumps(Bomb(mark))
    pickle.loads(content)
    assert mark.exists()
    mark.unlink()
    (folder / name).write_bytes(content)
    assert refused(folder).code == "damaged_file"
    finish_run(folder)

    def use() -> None:
        model = gelgt.load(folder)
        model.temporal_profile()
        evaluate_run(model.run, twins.whole)

    with pytest.raises(GelgtError):
        use()
    assert not mark.exists()


def test_yaml_builds_no_objects(folder: Path, tmp_path: Path) -> None:
    mark = tmp_path / "it ran"
    (folder / "task.yaml").write_text(f"name: !!python/object/apply:os.mkdir ['{mark}']\n")
    finish_run(folder)
    refused(folder)
    assert not mark.exists()


def test_weights_of_another_model(folder: Path, twins: Twins) -> None:
    edit(folder / "config.json", lambda c: c["model"].update(width=32))
    finish_run(folder)
    with pytest.raises(GelgtError) as caught:
        Predictor(load_run(folder), twins.whole)
    assert caught.value.code == "bad_run"


def test_sql_of_a_stranger_cannot_reach_out(folder: Path, twins: Twins, tmp_path: Path) -> None:
    """A task's SQL runs when labels are made again; it sees the tables alone."""
    from gelgt.schema.manifest import dump_yaml, load_yaml

    (tmp_path / "secret.csv").write_text("a\n1\n")
    content = load_yaml(folder / "task.yaml")
    content["gelgt"].pop("sentence")
    for sql in (
        f"SELECT * FROM read_csv('{tmp_path / 'secret.csv'}')",
        f"COPY (SELECT 1) TO '{tmp_path / 'made.csv'}'",
    ):
        dump_yaml({**content, "sql": sql}, folder / "task.yaml")
        finish_run(folder)
        with pytest.raises(GelgtError) as caught:
            evaluate_run(load_run(folder), twins.cut)
        assert caught.value.code == "bad_sql"
    assert not (tmp_path / "made.csv").exists()
