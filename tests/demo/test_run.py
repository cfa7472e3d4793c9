"""The steps of the demo: what each leaves, and what it refuses to touch. `tests/cli/test_demo.py`
runs them all."""

from pathlib import Path

import pytest

from gelgt.demo.run import TASK, Demo, learned
from gelgt.errors import GelgtError
from gelgt.runs.record import Profile


def test_the_steps_up_to_training(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo", seed=3, is_quick=True)
    shop = demo.write_shop()
    schema = demo.import_shop()
    assert set(schema["tables"]) >= {"customers", "orders", "products"}
    task = demo.make_task()
    assert (task.name, str(task.test_timestamp)) == (TASK, shop.test_timestamp)
    config, options = demo.training()
    assert (config.train.seed, config.train.steps_per_epoch) == (3, 3)
    assert options.command == demo.commands["train"]
    assert "--seed 3" in demo.commands["train"]


def test_a_second_demo_replaces_the_first(tmp_path: Path) -> None:
    for _ in range(2):
        demo = Demo(tmp_path, is_quick=True)
        demo.write_shop()
        demo.import_shop()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["project", "shop.db"]


def test_a_project_of_the_users_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    with pytest.raises(GelgtError, match="not from an earlier demo") as error:
        Demo(tmp_path, is_quick=True).write_shop()
    assert error.value.code == "not_empty"
    assert [path.name for path in tmp_path.iterdir()] == ["project"]


def test_what_was_learned_of_each_truth() -> None:
    kernel = {"text": "30 days ± 5", "centre_days": 30.0, "width_days": 5.0, "weights": [0.1, -2.0]}
    weaker = {**kernel, "text": "90 days", "weights": [0.3, 0.0]}
    profile = {
        "bias": [{"layer": 0, "kernels": [weaker, kernel]}],
        "attention": {
            "by_table": {"orders": 0.5, "page_pings": 0.1},
            "rows_by_table": {"orders": 0.2, "page_pings": 0.6},
        },
    }
    shown = learned(Profile.model_validate(profile))
    assert shown["repurchase_lag"].endswith("30 days ± 5 (weight -2.00); 90 days (weight +0.30)")
    assert shown["two_hop_quality"] == "orders 50% of attention (20% of the rows)"
    assert shown["noise"] == "page_pings 10% of attention (60% of the rows)"
