"""Data sets by name: offline is a clear error, and only a name or Hub address ever reaches the
network."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import gelgt
from gelgt.errors import SourceError
from gelgt.sources.hub import hub_folder, is_hub_address


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the downloader was asked for; it behaves as if there were no network."""
    from relbench import hf

    calls: list[str] = []

    def download(name: str, *args: Any, **kwargs: Any) -> Path:
        calls.append(name)
        raise ConnectionError("Name or service not known\nand ninety more lines")

    monkeypatch.setattr(hf, "download_dataset_dir", download)
    return calls


def test_offline_is_an_error_that_names_the_data_set_and_the_repair(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError) as caught:
        gelgt.open("rel-amazon")
    assert asked == ["rel-amazon"]
    assert caught.value.code == "not_cached"
    assert "'rel-amazon'" in caught.value.message
    assert "Name or service not known" in caught.value.message
    assert "ninety more lines" not in caught.value.message
    assert "give the path of a RelBench folder" in caught.value.hint


def test_an_error_without_words_still_says_what(monkeypatch: pytest.MonkeyPatch) -> None:
    from relbench import hf

    def download(name: str) -> Path:
        raise TimeoutError

    monkeypatch.setattr(hf, "download_dataset_dir", download)
    with pytest.raises(SourceError, match="TimeoutError"):
        hub_folder("rel-f1")


@pytest.mark.parametrize(
    "path",
    [
        "rel-f1/",
        "./rel-f1",
        "data/rel-f1",
        "rel_f1",
        "Rel-F1",
        "shop.db",
        "rel-f1.db",
        "sqlite:///rel-f1",
        "relf1",
        "/rel-f1",
        "rel-",
    ],
)
def test_a_mistyped_path_never_reaches_the_network(
    path: str, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(gelgt.GelgtError) as caught:
        gelgt.open(path)
    assert caught.value.code == "not_found"
    assert asked == []


def test_a_local_folder_of_that_name_comes_first(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    gelgt.open(
        {"t": pd.DataFrame({"id": [1, 2], "at": pd.date_range("2024", periods=2)})}, out="rel-mine"
    )
    assert gelgt.open("rel-mine").table_names == ["t"]
    assert asked == []


def test_a_download_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from relbench import hf

    gelgt.open(
        {"t": pd.DataFrame({"id": [1, 2], "at": pd.date_range("2024", periods=2)})},
        out=tmp_path / "copy",
    )
    asked = []

    def download(name: str) -> str:
        asked.append(name)
        return str(tmp_path / "copy")

    monkeypatch.setattr(hf, "download_dataset_dir", download)
    assert gelgt.open("hf://org/repo/folder").table_names == ["t"]
    assert asked == ["org/repo/folder"]


def test_a_download_that_is_no_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from relbench import hf

    monkeypatch.setattr(hf, "download_dataset_dir", lambda name: str(tmp_path))
    with pytest.raises(SourceError, match="no RelBench data set 'rel-nothing'") as caught:
        hub_folder("rel-nothing")
    assert caught.value.code == "not_found"


def test_addresses() -> None:
    assert all(
        map(
            is_hub_address,
            (
                "rel-f1",
                "rel-stack-beer",
                "dbinfer-avs",
                "ctu-mutagenesis",
                "tgbl-wiki",
                "hf://org/repo",
            ),
        )
    )
    assert not any(
        map(is_hub_address, ("shop", "rel-f1/db", "my-data", "REL-F1", "relation-x", ""))
    )
