"""`make_twin` and its command: what is refused, and what the manifest may leave out."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

import gelgt
from gelgt import GelgtError
from gelgt.testing.twins import TWINS, make_twin, twin_tasks
from gelgt.testing.twins.__main__ import main

Twin = Callable[[str], Path]


def test_an_unknown_twin(tmp_path: Path) -> None:
    with pytest.raises(
        GelgtError, match=r"There is no twin of a database 'rel-trail'\. Did you mean 'rel-trial'"
    ):
        make_twin("rel-trail", tmp_path / "t")
    with pytest.raises(GelgtError) as caught:
        twin_tasks("rel-f2")
    assert caught.value.code == "unknown_twin"


def test_nothing_is_overwritten_or_half_written(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(GelgtError) as caught:
        make_twin("rel-hm", tmp_path)
    assert caught.value.code == "not_empty"
    for scale, code in ((0, "bad_option"), (float("nan"), "bad_option"), (0.01, "no_labels")):
        with pytest.raises(GelgtError) as caught:
            make_twin("rel-avito", tmp_path / "small", scale=scale)
        assert caught.value.code == code
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == list(TWINS)
    assert main(["rel-salt", str(tmp_path / "salt"), "--seed", "3"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'salt'}\n"
    assert gelgt.open(tmp_path / "salt").task("item-plant").task_type == "multiclass_classification"
    assert main(["rel-salt", str(tmp_path / "salt")]) == 2
    assert "error (not_empty)" in capsys.readouterr().err


# Kinds.
def test_kinds_may_be_left_to_inference(twin: Twin, tmp_path: Path) -> None:
    """As in a hosted database. Most are found; whole numbers that name something are numbers, and
    rare words are text."""
    pairs = []
    for name in TWINS:
        (tmp_path / name).mkdir()
        content = yaml.safe_load((twin(name) / "manifest.yaml").read_text())
        del content["gelgt"]
        (tmp_path / name / "manifest.yaml").write_text(yaml.safe_dump(content))
        shutil.copytree(twin(name) / "db", tmp_path / name / "db")
        stated, inferred = gelgt.open(twin(name)), gelgt.open(tmp_path / name)
        pairs += [
            (k.kind, inferred.table(t).kinds[c].kind)
            for t in stated.table_names
            for c, k in stated.table(t).kinds.items()
        ]
    assert np.mean([a == b for a, b in pairs]) > 0.9
    assert {b for a, b in pairs if a == "timestamp"} == {"timestamp"}
    assert {b for a, b in pairs if a == "categorical"} == {"categorical", "numerical", "text"}


def test_a_manifest_without_kinds(tmp_path: Path) -> None:
    made = make_twin("rel-hm", tmp_path / "hm", kinds=False)
    assert "gelgt" not in yaml.safe_load((made / "manifest.yaml").read_text())
    assert len(gelgt.open(made).table("article").kinds) == 24
