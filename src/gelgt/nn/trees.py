"""Boosted trees as tensors: what LightGBM has grown, so that it travels with the weights and
predicts on any device.

A tree of few nodes is a table. Whether a value goes left is decided for all N nodes of all trees at
once; the N decisions of a tree, read as a binary number, are the place of its leaf among 2^N. No
tree is traversed.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

PREFIX = "trees."
AT_ONCE = 1 << 24  # comparisons, of about ten bytes each
MOST_NODES = 12  # 4,096 leaves to look up, most of them the same


class Trees(nn.Module):
    """T trees over (B, F) columns, NaN for missing; tree t adds its leaf to output t modulo the
    outputs.

    Args:
        trees: How many.
        nodes: Inner nodes of the largest tree.
        outputs: Width of what is predicted.
    """

    feature: Tensor
    threshold: Tensor
    missing_left: Tensor
    leaf: Tensor
    bits: Tensor

    def __init__(self, trees: int, nodes: int, outputs: int) -> None:
        super().__init__()
        assert nodes <= MOST_NODES, nodes
        self.outputs = outputs
        self.register_buffer("feature", torch.zeros(trees, nodes, dtype=torch.int64))
        self.register_buffer("threshold", torch.zeros(trees, nodes))
        self.register_buffer("missing_left", torch.zeros(trees, nodes, dtype=torch.bool))
        self.register_buffer("leaf", torch.zeros(trees, 2**nodes, dtype=torch.float64))
        self.register_buffer("bits", 2.0 ** torch.arange(nodes), persistent=False)

    def forward(self, columns: Tensor) -> Tensor:
        """(B, F) → (B, outputs)."""
        trees, nodes = self.feature.shape
        most = max(1, AT_ONCE // (trees * nodes))
        if len(columns) > most:
            return torch.cat([self(part) for part in torch.split(columns, most)])
        values = (
            columns.float().index_select(1, self.feature.flatten()).view(len(columns), trees, nodes)
        )
        goes_left = (values <= self.threshold) | (torch.isnan(values) & self.missing_left)
        with torch.autocast(columns.device.type, enabled=False):
            place = (goes_left.float() @ self.bits).long()  # (B, T), exact
        leaves = self.leaf[torch.arange(trees, device=place.device), place]
        return leaves.view(len(columns), trees // self.outputs, self.outputs).sum(1)

    @classmethod
    def of(cls, dumps: list[Mapping[str, Any]], outputs: int) -> "Trees":
        """The mean of some LightGBM models, each as `Booster.dump_model` gives it."""
        roots = [info["tree_structure"] for dump in dumps for info in dump["tree_info"]]
        inner = [_inner(root) for root in roots]
        forest = cls(len(roots), max(1, *(len(nodes) for nodes in inner)), outputs)
        for tree, (root, nodes) in enumerate(zip(roots, inner)):
            size = len(nodes)
            forest.feature[tree, :size] = torch.tensor(
                [node["split_feature"] for node in nodes], dtype=torch.int64
            )
            forest.threshold[tree, :size] = torch.tensor(
                [_below(node["threshold"]) for node in nodes]
            )
            forest.missing_left[tree, :size] = torch.tensor(
                [_is_left(node) for node in nodes], dtype=torch.bool
            )
            forest.leaf[tree] = torch.from_numpy(_leaves(root, forest.leaf.shape[1])) / len(dumps)
        return forest

    @classmethod
    def shaped(cls, weights: Mapping[str, Tensor], outputs: int) -> "Trees | None":
        """Trees of the shape of some weights, to load them into; None where there are none."""
        feature = weights.get(f"{PREFIX}feature")
        return None if feature is None else cls(feature.shape[0], feature.shape[1], outputs)


def _inner(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The inner nodes of a tree; none where it is a single leaf."""
    return (
        [part, *_inner(part["left_child"]), *_inner(part["right_child"])]
        if "split_feature" in part
        else []
    )


def _leaves(root: Mapping[str, Any], places: int) -> NDArray[np.float64]:
    """(places,) the leaf that the decisions in the bits of each place lead to; nodes have the order
    of `_inner`."""
    leaves, decisions = np.zeros(places), np.arange(places)

    def fill(part: Mapping[str, Any], here: NDArray[np.bool_], number: int) -> int:
        """Fill what a part of the tree leads to, and give the number of the next node."""
        if "split_feature" not in part:
            leaves[here] = part["leaf_value"]
            return number
        left = (decisions >> number & 1).astype(bool)
        after = fill(part["left_child"], here & left, number + 1)
        return fill(part["right_child"], here & ~left, after)

    fill(root, np.ones(places, bool), 0)
    return leaves


def _below(threshold: float) -> float:
    """The largest float32 that is not above a threshold: a float32 is at most the one where it is
    at most the other."""
    with np.errstate(over="ignore"):  # LightGBM's word for "whatever is known" is beyond float32
        near = np.float32(threshold)
    return float(near if float(near) <= threshold else np.nextafter(near, np.float32(-np.inf)))


def _is_left(node: Mapping[str, Any]) -> bool:
    """Where a missing value goes. What never was missing in training is taken for a zero, as
    LightGBM does."""
    assert node["decision_type"] == "<=", node["decision_type"]
    return (
        bool(node["default_left"])
        if node["missing_type"] == "NaN"
        else bool(node["threshold"] >= 0)
    )
