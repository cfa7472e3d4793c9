"""Configurations for tests of single parts: every published part on, nothing beside the graph."""

from typing import Any

from gelgt.config import ENCODERS, GelGTConfig
from gelgt.nn.bias import KernelForm

PLAIN: dict[str, Any] = {
    "dropout": 0.1,
    "keep": 200,
    "row_width": 64,
    "row_layers": 2,
    "row_names": True,
    "row_times": True,
    "history": 0,
    "calendar": False,
    "trees": False,
    "kernels": None,
    "time_scale": "linear",
    "gnn_layers": 3,
    "gnn_mean": "all",
    "wiring": "parallel",
    "attention_dropout": None,
    "gnn_dropout": 0.1,
    "encoders": ENCODERS,
}


def plain_config(**changes: Any) -> GelGTConfig:
    """Two parallel branches over all five encoders of the paper, in layer norm."""
    return GelGTConfig(**(PLAIN | changes))


def kernel_form(
    form: str = "published", parameters: str = "log", weights: str = "positive"
) -> KernelForm:
    """A form of the kernels by the words of the tests' parameters."""
    return KernelForm(
        has_log_parameters=parameters == "log",
        has_positive_weights=weights == "positive",
        factor=1.0 if form == "published" else 2.0,
    )
