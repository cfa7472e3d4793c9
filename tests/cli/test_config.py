"""`gelgt config show`: every value with its origin and its meaning."""

from collections.abc import Callable
from typing import Any

import pytest

from gelgt.cli.config import meanings_of
from gelgt.config import GelGTConfig, SamplingConfig, TrainConfig
from gelgt.registry import BUILT_IN, find_model

Run = Callable[..., Any]


@pytest.mark.parametrize("kind", [GelGTConfig, SamplingConfig, TrainConfig])
def test_every_value_has_a_meaning(kind: type[Any]) -> None:
    assert list(meanings_of(kind)) == list(kind.model_fields)


@pytest.mark.parametrize("name", BUILT_IN)
def test_so_has_every_value_of_other_models(name: str) -> None:
    kind = find_model(name).config_type
    assert set(meanings_of(kind)) == set(kind.model_fields)


def test_origins(run: Run) -> None:
    shown = run(
        "config",
        "show",
        "--preset",
        "paper",
        "--task-type",
        "regression",
        "--set",
        "model.width=64",
        "--json",
    ).json
    assert shown["preset"] == "paper"
    values = shown["values"]
    assert values["model.width"] == {
        "value": 64,
        "origin": "set",
        "meaning": "Width d of row vectors and seed vectors.",
    }
    assert (values["model.keep"]["value"], values["model.keep"]["origin"]) == (300, "derived")
    assert values["model.norm"]["origin"] == "preset"
    assert values["sampling.hops"]["origin"] == "default"


def test_for_people(run: Run) -> None:
    result = run("config", "show")
    assert (result.code, result.err) == (0, "")
    row = next(line for line in result.out.splitlines() if line.startswith("model.width "))
    assert row.split()[:3] == ["model.width", "64", "preset"]
    assert (
        len(
            {
                line.index(" preset  ")
                for line in result.out.splitlines()
                if line.startswith("model.") and " preset  " in line
            }
        )
        == 1
    )


def test_of_a_run(run: Run, trained: Any) -> None:
    values = run("config", "show", trained.folder, "--json").json["values"]
    assert (values["train.epochs"]["value"], values["train.epochs"]["origin"]) == (1, "set")
    assert (values["sampling.visibility"]["value"], values["sampling.visibility"]["origin"]) == (
        "seed-time",
        "derived",
    )
    assert run("config", "show", trained.folder, "--preset", "gpu", "--json").error == "bad_option"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--preset", "gpuu"), "unknown_preset"),
        (("--task-type", "regresion"), "bad_option"),
        (("--set", "modelwidth=3"), "unknown_setting"),
        (("nowhere",), "no_run"),
    ],
)
def test_errors(options: tuple[str, ...], code: str, run: Run) -> None:
    result = run("config", "show", *options, "--json")
    assert (result.code, result.error) == (2, code)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.width=wide", "model.width must be an integer of at least 8, got 'wide'."),
        ("model.dropout=1", "model.dropout must be a number of at least 0 and below 1, got 1."),
        ("train.windows=0", "'auto' or an integer of at least 1 and of at most 100, got 0."),
        ("model.norm=group", "model.norm must be 'layer' or 'batch', got 'group'."),
    ],
)
def test_an_error_says_what_was_expected_and_what_came(
    setting: str, message: str, run: Run
) -> None:
    error = run("config", "show", "--set", setting, "--json").json["error"]
    assert error["code"] == "bad_config"
    assert error["message"].endswith(message)
