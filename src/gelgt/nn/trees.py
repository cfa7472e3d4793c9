"""Boosted trees as tensors: what LightGBM has grown, so that it travels with the weights and predicts on any device."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

PREFIX = "trees."


class Trees(nn.Module):
    """T trees over (B, F) columns, NaN for missing; tree t adds its leaf to output t modulo the outputs.

    A node is a number ≥ 0, a leaf ``-1 - number``. A value goes left where it is at most the threshold, a missing one where the tree says.

    Args:
        trees: How many.
        nodes: Inner nodes of the largest tree.
        outputs: Width of what is predicted.
    """

    feature: Tensor
    threshold: Tensor
    left: Tensor
    right: Tensor
    missing_left: Tensor
    leaf: Tensor
    depth: Tensor

    def __init__(self, trees: int, nodes: int, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs
        self.register_buffer("feature", torch.zeros(trees, nodes, dtype=torch.int64))
        self.register_buffer("threshold", torch.zeros(trees, nodes, dtype=torch.float64))
        self.register_buffer("left", torch.full((trees, nodes), -1, dtype=torch.int64))
        self.register_buffer("right", torch.full((trees, nodes), -1, dtype=torch.int64))
        self.register_buffer("missing_left", torch.zeros(trees, nodes, dtype=torch.bool))
        self.register_buffer("leaf", torch.zeros(trees, nodes + 1, dtype=torch.float64))
        self.register_buffer("depth", torch.tensor(0))

    def forward(self, columns: Tensor) -> Tensor:
        """(B, F) → (B, outputs)."""
        trees = len(self.feature)
        x = columns.double()
        at = x.new_zeros((len(x), trees), dtype=torch.int64)
        number = torch.arange(trees, device=x.device).expand_as(at)
        for _ in range(int(self.depth)):
            node = at.clamp(min=0)
            value = x.gather(1, self.feature[number, node])
            goes_left = torch.where(torch.isnan(value), self.missing_left[number, node], value <= self.threshold[number, node])
            at = torch.where(at < 0, at, torch.where(goes_left, self.left[number, node], self.right[number, node]))
        found = self.leaf[number, -1 - at]
        return found.view(len(x), trees // self.outputs, self.outputs).sum(1)

    @classmethod
    def of(cls, dumps: list[Mapping[str, Any]], outputs: int) -> "Trees":
        """The mean of some LightGBM models, each as `Booster.dump_model` gives it."""
        grown = [_Tree.of(info["tree_structure"]) for dump in dumps for info in dump["tree_info"]]
        made = cls(len(grown), max(1, *(len(tree.nodes) for tree in grown)), outputs)
        for number, tree in enumerate(grown):
            for place, node in enumerate(tree.nodes):
                made.feature[number, place], made.threshold[number, place] = node["split_feature"], node["threshold"]
                made.missing_left[number, place] = _is_left(node)
                made.left[number, place], made.right[number, place] = tree.children[place]
            made.leaf[number, : len(tree.leaves)] = torch.tensor(tree.leaves, dtype=torch.float64) / len(dumps)
        made.depth.fill_(max(1, *(tree.depth for tree in grown)))
        return made

    @classmethod
    def shaped(cls, weights: Mapping[str, Tensor], outputs: int) -> "Trees | None":
        """Trees of the shape of some weights, to load them into; None where there are none."""
        feature = weights.get(f"{PREFIX}feature")
        return None if feature is None else cls(feature.shape[0], feature.shape[1], outputs)


@dataclass(frozen=True)
class _Tree:
    """One tree, its nodes and leaves numbered as they are met; a tree without a split is a node whose children are its leaf."""

    nodes: list[Mapping[str, Any]]
    children: list[tuple[int, int]]
    leaves: list[float]
    depth: int

    @classmethod
    def of(cls, root: Mapping[str, Any]) -> "_Tree":
        nodes: list[Mapping[str, Any]] = []
        children: list[tuple[int, int]] = []
        leaves: list[float] = []
        deepest = 0

        def visit(part: Mapping[str, Any], depth: int) -> int:
            nonlocal deepest
            deepest = max(deepest, depth)
            if "split_feature" not in part:
                leaves.append(float(part["leaf_value"]))
                return -len(leaves)
            place = len(nodes)
            nodes.append(part)
            children.append((0, 0))
            children[place] = visit(part["left_child"], depth + 1), visit(part["right_child"], depth + 1)
            return place

        visit(root, 0)
        return cls(nodes, children, leaves, deepest)


def _is_left(node: Mapping[str, Any]) -> bool:
    """Where a missing value goes. What never was missing in training is taken for a zero, as LightGBM does."""
    assert node["decision_type"] == "<=", node["decision_type"]
    return bool(node["default_left"]) if node["missing_type"] == "NaN" else bool(node["threshold"] >= 0)
