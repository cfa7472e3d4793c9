"""Records of sharded predictions that are links, pipes or of other options."""

import os
from pathlib import Path

import pytest

from gelgt.errors import GelgtError
from gelgt.inference.part_folder import LocalFolder
from gelgt.inference.plan import Plan, check_same


@pytest.mark.timeout(20)
def test_links_that_lead_nowhere_and_pipes(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "part").write_text("x")
    folder = LocalFolder(tmp_path)
    assert folder.sizes() == {"part": 1}
    assert [folder.size(name) for name in ("loop", "pipe", "part", "none")] == [None, None, 1, None]
    assert folder.read("pipe") is None
    assert folder.read("part") == "x"


def test_an_option_that_is_null_differs_from_one_that_is_not_there() -> None:
    def plan(**options: object) -> Plan:
        return Plan(
            shards=1, entities=1, at=None, model="m", data="d", options=options, version="1"
        )

    check_same(plan(k=None), plan(k=None), "These differ")
    with pytest.raises(GelgtError) as caught:
        check_same(plan(k=None), plan(), "These differ")
    assert caught.value.code == "options_mismatch"
    assert "option k" in caught.value.message
