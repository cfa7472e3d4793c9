"""The short form of the campaigns: the first cases of each, and the frame itself."""

import json
from collections import Counter
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from campaigns.__main__ import NAMES
from campaigns.frame import Campaign, Record, run_cases, work, workplace
from campaigns.lanes import SHARES, Clock


@pytest.mark.parametrize("name", NAMES)
def test_the_first_cases_keep_the_promise(name: str, tmp_path: Path) -> None:
    campaign: Campaign = import_module(f"campaigns.{name}").CAMPAIGN
    world = campaign.prepare(tmp_path)
    try:
        outcomes, traces = run_cases(campaign, world, 1, range(campaign.short))
    finally:
        getattr(world, "close", lambda: None)()  # servers
    for outcome in outcomes:
        if outcome.endswith("not installed"):
            pytest.skip(outcome)
    assert not traces, next(iter(traces.values()))
    assert sum(outcomes.values()) == campaign.short


def _fragile(world: list[int], number: int, random: np.random.Generator) -> str:
    world.append(number)
    if number % 50 == 7:
        raise ValueError(f"{random.integers(1000)}")
    return "even" if number % 2 == 0 else "odd"


def test_finished_cases_are_not_run_again_and_failures_are_kept(tmp_path: Path) -> None:
    seen: list[int] = []
    campaign = Campaign("fragile", lambda folder: seen, _fragile, long=300, short=1)
    work(campaign, 130, 5, tmp_path, float("inf"))
    work(campaign, 300, 5, tmp_path, float("inf"))
    assert sorted(seen) == list(range(300)) == seen
    record = Record.read(tmp_path, "fragile", 5)
    assert (record.cases, record.failed) == (300, [7, 57, 107, 157, 207, 257])
    assert record.outcomes == Counter(even=150, odd=144, broken=6)
    lines = (tmp_path / "fragile.failures.jsonl").read_text().splitlines()
    assert [json.loads(line)["case"] for line in lines] == record.failed
    # a case is the same by its number alone
    again = run_cases(campaign, seen, 5, [207])[1]
    assert json.loads(lines[4])["trace"].splitlines()[-1] == again[207].splitlines()[-1]
    assert Record.read(tmp_path, "fragile", 6).cases == 0


def test_the_time_is_over_within_a_stretch(tmp_path: Path) -> None:
    campaign = Campaign("fragile", lambda folder: [], _fragile, long=300, short=1)
    assert run_cases(campaign, [], 5, range(3), until=0.0)[0].total() == 1
    work(campaign, 300, 5, tmp_path, 0.0)
    assert Record.read(tmp_path, "fragile", 5).cases == 0
    # what is recorded in parts is the same as at once
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("campaigns.frame.RECORDED", -1.0)
        work(campaign, 110, 5, tmp_path, float("inf"))
    record = Record.read(tmp_path, "fragile", 5)
    assert (record.cases, record.done, record.failed) == (110, [[0, 110]], [7, 57, 107])


def test_preparing_costs_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]

    def takes(seconds: float, answer: str) -> str:
        clock[0] += seconds
        return answer

    monkeypatch.setattr("campaigns.frame.time.time", lambda: clock[0])
    campaign = Campaign(
        "slow", lambda folder: takes(500, ""), lambda *case: takes(20, "done"), long=9, short=1
    )
    work(campaign, 9, 5, tmp_path, 1090.0)
    assert Record.read(tmp_path, "slow", 5).cases == 5


def test_cases_work_in_memory_where_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "gelgt-campaign-999999999-x"  # no process has so high a number
    (left / "case").mkdir(parents=True)
    monkeypatch.setattr("campaigns.frame.MEMORY", tmp_path)
    monkeypatch.setattr("campaigns.frame.ROOM", 0)
    with workplace(tmp_path / "out") as place, workplace(tmp_path / "out") as other:
        assert place.parent == other.parent == tmp_path
        assert place != other
        assert not left.exists()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("campaigns.frame.ROOM", 1 << 60)
    with workplace(tmp_path / "out") as place:
        assert place == tmp_path / "out"


def test_two_lanes_divide_the_time() -> None:
    assert set(SHARES) == set(NAMES)
    clock, now, ends, taken = Clock(list(SHARES), 3600.0, 2, 0.0), 0.0, [0.0, 0.0], {}
    while turn := clock.take(lane := ends.index(min(ends)), now := min(ends)):
        # the first is done before its time, and leaves the rest to others
        taken[turn[0]] = min(turn[1], 40.0) if turn[0] == "texts" else turn[1]
        ends[lane] = now + taken[turn[0]]
    assert taken.keys() == SHARES.keys()
    assert ends == pytest.approx([3600.0, 3600.0])
    assert all(taken[name] > 0.99 * SHARES[name] for name in ("future", "files", "sentences"))
    assert min(taken["kill"], taken["servers"]) > 400
