"""Files of tensors that are none: an error at once, never a wait."""

import os
from pathlib import Path

import pytest
import torch

from gelgt.errors import GelgtError
from gelgt.runs.folder import check_run, checksum
from gelgt.runs.tensors import load_tensors, save_tensors
from gelgt.training.checkpoint import FORMAT, load_checkpoint


@pytest.mark.timeout(20)
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "checkpoint.safetensors")
    for read in (load_tensors, lambda path: load_checkpoint(path.parent, "key")):
        with pytest.raises(GelgtError) as caught:
            read(tmp_path / "checkpoint.safetensors")
        assert caught.value.code == "damaged_file"


@pytest.mark.parametrize("state", ["{", "[]", '{"unknown": 1}', "null"])
def test_a_checkpoint_with_another_state(tmp_path: Path, state: str) -> None:
    meta = {"format": str(FORMAT), "key": "key", "state": state}
    save_tensors(tmp_path / "checkpoint.safetensors", {"model/a": torch.zeros(2)}, meta)
    with pytest.raises(GelgtError) as caught:
        load_checkpoint(tmp_path, "key")
    assert caught.value.code == "damaged_file"


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(GelgtError) as caught:
        checksum(tmp_path)  # a folder
    assert caught.value.code == "damaged_file"
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    with pytest.raises(GelgtError) as caught:
        check_run(loop)
    assert caught.value.code in ("no_run", "damaged_file")


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="limits of a process")
def test_a_full_disk_is_an_error_of_the_file(tmp_path: Path) -> None:
    """A file that may have no more than a kilobyte, as on a full disk or under a quota."""
    import resource

    path = tmp_path / "model.safetensors"
    save_tensors(path, {"a": torch.zeros(3)}, {})
    before, whole = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, whole[1]))
    try:
        with pytest.raises(GelgtError, match=r"model\.safetensors cannot be written") as caught:
            save_tensors(path, {"a": torch.zeros(3000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, whole)
    assert caught.value.code == "cannot_write"
    assert "--resume" in caught.value.hint
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
