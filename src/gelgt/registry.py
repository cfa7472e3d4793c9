"""Models by name: what `--model` takes.

A model is a `gelgt.nn.base.RelationalModel`. The package's own are imported when they are asked
for. Others are registered by their package, by an entry point of the group ``gelgt.models``, or in
Python:

    gelgt.register_model("mine", MyModel)

A run folder names its model. Only names that are registered are looked up, so that a folder cannot
make gelgt import a module.
"""

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from gelgt.errors import GelgtError, did_you_mean

if TYPE_CHECKING:
    from gelgt.nn.base import RelationalModel

GROUP = "gelgt.models"
BUILT_IN = {
    "gelgt": "gelgt.nn.model:GelGTModel",
    "rdl": "gelgt.zoo.rdl:RDL",
    "hgt": "gelgt.zoo.hgt:HGT",
    "hgt-pe": "gelgt.zoo.hgt_pe:HGTWithPositions",
    "griffin": "gelgt.zoo.griffin:Griffin",
    "relgt": "gelgt.zoo.relgt:RelGT",
    "relgnn": "gelgt.zoo.relgnn:RelGNN",
    "rgp": "gelgt.zoo.rgp:RGP",
    "nodeformer": "gelgt.zoo.nodeformer:NodeFormer",
    "rel-llm": "gelgt.zoo.rel_llm:RelLLM",
}
BASELINES = ("lightgbm", "lightgbm-2hop", "entity-mean", "entity-median", "constant")
_registered: dict[str, type[Any]] = {}


def model_names() -> list[str]:
    """Every name that `find_model` knows."""
    return list(
        dict.fromkeys(
            [*BUILT_IN, *_registered, *(point.name for point in entry_points(group=GROUP))]
        )
    )


def register_model(name: str, model: "type[RelationalModel]") -> None:
    """Make a model known by a name, for as long as this process lives.

    Raises:
        GelgtError: the name is one of the package's own.
    """
    if name in BUILT_IN:
        raise GelgtError(
            "taken_name", f"'{name}' is one of gelgt's own models.", hint="Choose another name."
        )
    _registered[name] = model


def find_model(name: str) -> "type[RelationalModel]":
    """The class of a model.

    Raises:
        GelgtError: there is none of that name.

    Example:
        >>> find_model("gelgt").__name__
        'GelGTModel'
    """
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        built_in: type[RelationalModel] = getattr(import_module(module), attribute)
        return built_in
    if name in _registered:
        return _registered[name]
    for point in entry_points(group=GROUP, name=name):
        loaded: type[RelationalModel] = point.load()
        return loaded
    if name in BASELINES:
        raise GelgtError(
            "is_baseline",
            f"'{name}' is scored beside every model, and cannot predict by itself.",
            hint="Train another model, or compare with it: gelgt bench quality --model …",
        )
    raise GelgtError(
        "unknown_model", f"There is no model '{name}'.", hint=did_you_mean(name, model_names())
    )
