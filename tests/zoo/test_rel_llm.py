"""Rel-LLM: rows become soft prompts of a causal language model that stays as it is, and is named in
the run, not copied."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from planted import Outcome, Planted, summed

from gelgt.errors import GelgtError
from gelgt.nn import ModelContext, ModelInput
from gelgt.nn.ensemble import Ensemble
from gelgt.presets import RunConfig
from gelgt.training import train_run
from gelgt.zoo.language_model import fingerprint_of
from gelgt.zoo.rel_llm import RelLLM, RelLLMConfig

SETTINGS = {"sampling__budget": 8, "model__prompts": 6, "train__epochs": 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny GPT-2 of random weights with a tokenizer of a few words, as `transformers` saves
    them."""
    pytest.importorskip(
        "transformers", reason="rel-llm needs transformers: pip install 'gelgt[llm]'"
    )
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    path = tmp_path_factory.mktemp("language") / "gpt2"
    torch.manual_seed(0)
    sizes = {"vocab_size": 16, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 48}
    GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=None, eos_token_id=None)).save_pretrained(path)
    words = Tokenizer(
        models.WordLevel(
            {w: n for n, w in enumerate(("?", "users", ":", "team", "north", "south", ","))},
            unk_token="?",
        )
    )
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?").save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return summed(tmp_path_factory.mktemp("rel-llm") / "db")


@pytest.fixture(scope="module")
def trained(world: Planted, folder: Path) -> Outcome:
    return world.train("rel-llm", **SETTINGS, model__language_model=str(folder))


@pytest.fixture
def inputs(trained: Outcome) -> ModelInput:
    return next(iter(trained.data.loader(trained.data.seeds["test"], 6)))


def fresh(trained: Outcome, folder: Path | None, **changes: Any) -> RelLLM:
    torch.manual_seed(0)
    values = {
        "width": 32,
        "row_width": 16,
        "prompts": 6,
        "language_model": None if folder is None else str(folder),
    } | changes
    context = ModelContext(trained.data.graph, trained.data.features, hide=trained.data.hide)
    return RelLLM(
        RelLLMConfig(**values),
        context,
    ).eval()


def test_prompts_carry_what_neighbours_say_through_a_frozen_model(
    trained: Outcome, folder: Path
) -> None:
    assert trained.auc > 0.85
    assert trained.auc > trained.entity_mean + 0.25
    assert isinstance(trained.model, RelLLM)
    untouched = fresh(trained, folder).language.state_dict()
    assert all(
        torch.equal(tensor, untouched[name])
        for name, tensor in trained.model.language.state_dict().items()
    )


@pytest.mark.llm
def test_the_tiny_random_model_learns_along(world: Planted) -> None:
    found = world.train("rel-llm", **SETTINGS)
    assert found.auc > 0.85
    assert "random" in found.model.facts
    assert "trained along" in found.model.facts


def test_frozen_weights_are_not_saved_and_tuned_ones_are(trained: Outcome, folder: Path) -> None:
    frozen, tuned = fresh(trained, folder), fresh(trained, folder, is_tuned=True)
    inner = sum(p.numel() for p in frozen.language.parameters())
    count = {
        model: sum(t.numel() for t in model.state_dict().values()) for model in (frozen, tuned)
    }
    assert count[tuned] == count[frozen] + inner
    assert {id(p) for p in frozen.language.parameters()}.isdisjoint(
        {id(p) for p in frozen.parameters()}
    )
    assert "frozen" in frozen.facts


def test_a_saved_model_predicts_the_same_again(
    trained: Outcome, folder: Path, inputs: ModelInput
) -> None:
    again = fresh(trained, folder, **trained.model.config.model_dump())
    again.load_state_dict(trained.model.state_dict())
    with torch.no_grad():
        assert torch.equal(again(inputs), trained.model.eval()(inputs))


def test_another_language_model_in_the_same_place_is_refused(
    trained: Outcome, folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "other")
    assert torch.equal(fingerprint_of(str(folder)), fingerprint_of(str(tmp_path / "other")))
    content = json.loads((tmp_path / "other" / "config.json").read_text())
    (tmp_path / "other" / "config.json").write_text(
        json.dumps(content | {"layer_norm_epsilon": 1e-4})
    )
    other = fresh(trained, tmp_path / "other")
    with pytest.raises(GelgtError, match="not the one") as caught:
        other.load_state_dict(trained.model.state_dict())
    assert caught.value.code == "other_language_model"
    with pytest.raises(GelgtError, match="not the one"):
        Ensemble([other]).load_state_dict(Ensemble([trained.model]).state_dict())


def test_dropout_of_the_language_model_stays_off_and_it_moves_along(
    trained: Outcome, folder: Path
) -> None:
    model = fresh(trained, folder).train()
    assert model.training
    assert not model.language.training
    assert next(model.double().language.parameters()).dtype == torch.float64


def test_only_what_stands_before_a_row_is_seen(
    trained: Outcome, folder: Path, inputs: ModelInput
) -> None:
    """Subgraphs of different lengths are padded behind their seeds: one alone predicts as it does
    among others."""
    model, data = fresh(trained, folder, prompts=4), trained.data
    with torch.no_grad():
        together = model(inputs)
        for place in range(3):
            alone = next(iter(data.loader(data.seeds["test"].take([place]), 1)))
            torch.testing.assert_close(model(alone)[0], together[place], atol=1e-5, rtol=0)


def test_the_entitys_row_can_stand_before_as_text(
    trained: Outcome, folder: Path, inputs: ModelInput
) -> None:
    bare, worded = fresh(trained, folder), fresh(trained, folder, has_text=True, text_length=12)
    worded.load_state_dict(bare.state_dict())
    assert worded.text is not None
    texts = worded.text.texts(inputs)
    assert all(
        text.startswith(("users: team north, shade", "users: team south, shade")) for text in texts
    )
    words, lengths = worded.text(inputs, torch.device("cpu"))
    assert words.shape == (6, int(lengths.max()))
    with torch.no_grad():
        assert not torch.allclose(bare(inputs), worded(inputs), atol=1e-5)
        alone = next(iter(trained.data.loader(trained.data.seeds["test"].take([2]), 1)))
        torch.testing.assert_close(worded(alone)[0], worded(inputs)[2], atol=1e-5, rtol=0)


def test_hidden_columns_are_not_in_the_text(trained: Outcome, folder: Path) -> None:
    data, hide = trained.data, {"users": ("team",)}
    model = RelLLM(
        RelLLMConfig(width=32, language_model=str(folder), has_text=True, text_length=12),
        ModelContext(data.graph, data.features, hide=hide),
    )
    batch = next(iter(data.loader(data.seeds["test"], 2))).batch
    assert model.text is not None
    assert all(
        "team" not in text and "shade" in text
        for text in model.text.texts(ModelInput.of(batch, data.features, hide))
    )


def test_without_transformers_the_repair_is_named_before_any_work(
    world: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("gelgt.zoo.language_model.import_module", missing)
    with pytest.raises(GelgtError, match="needs transformers") as caught:
        train_run(
            world.db,
            world.task,
            tmp_path / "run",
            RunConfig.of("cpu", world.task.task_type, {}, "rel-llm"),
        )
    assert caught.value.code == "missing_extra"
    assert "gelgt[llm]" in str(caught.value.hint)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"language_model": "nowhere"}, "holds no language model"),
        ({"prompts": 500}, "takes 48"),
        ({"has_text": True, "text_length": 47}, "takes 48"),
        ({"language_model": None, "has_text": True}, "names none"),
    ],
)
def test_settings_that_cannot_be(
    trained: Outcome, folder: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(GelgtError, match=words):
        fresh(trained, folder, **changes)


def test_a_pickled_model_is_not_opened(trained: Outcome, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "old")
    (tmp_path / "old" / "model.safetensors").unlink()
    torch.save({}, tmp_path / "old" / "pytorch_model.bin")
    with pytest.raises(GelgtError, match="safetensors"):
        fresh(trained, tmp_path / "old")


def test_importing_the_module_loads_no_language_models() -> None:
    """PyG imports a part of `transformers` where it is installed; the models among it take
    seconds."""
    script = "import sys, gelgt.zoo.rel_llm; sys.exit('transformers.modeling_utils' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
