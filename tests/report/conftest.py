"""Made-up run folders, one for each task type: the files that the report reads, with numbers that
fit together."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    mean_absolute_error,
    mean_squared_error,
    roc_auc_score,
)

from gelgt.metrics import score

sys.path.insert(0, str(Path(__file__).parent))  # for pages.py

K = 5  # recommendations
CLASSES = ["delivered", "returned", "lost"]
LABELS = ["garden", "kitchen", "toys", "books"]
MakeRun = Callable[..., Path]


def make_run(
    folder: Path,
    kind: str = "binary_classification",
    rows: int = 600,
    epochs: int = 12,
    seed: int = 0,
) -> Path:
    """Write a run folder: predictions first, then the scores that they give."""
    generator = np.random.default_rng(seed)
    (folder / "predictions").mkdir(parents=True)
    scores: dict[str, dict[str, dict[str, float]]] = {}
    for split, months in (("val", 3), ("test", 5)):
        columns, found = _rows(kind, rows, generator)
        first = np.datetime64("2024-01-01" if split == "val" else "2024-07-01", "s")
        when = np.sort(
            first + generator.integers(0, months, rows) * np.timedelta64(30 * 86400, "s")
        )
        table = {
            "customer id": generator.integers(1000, 9999, rows),
            "time": when.astype("datetime64[us]"),
            **columns,
        }
        pq.write_table(pa.table(table), folder / "predictions" / f"{split}.parquet")
        for model, values in found.items():
            scores.setdefault(model, {})[split] = values
    write(folder, "metrics.json", _metrics(kind, rows, epochs, scores))
    write(folder, "profile.json", _profile(generator))
    return folder


def write(folder: Path, name: str, content: Any) -> None:
    (folder / name).write_text(json.dumps(content), encoding="utf-8")


def _rows(
    kind: str, rows: int, generator: np.random.Generator
) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    signal, noise = generator.normal(size=rows), generator.normal(size=rows)
    if kind == "recommendation":
        return _lists(rows, generator)
    if kind == "regression":
        label = np.round(np.maximum(5 + 3 * signal + noise, 0), 2)
        found = {
            "gelgt": 5 + 2.9 * signal,
            "lightgbm": 5 + 2.5 * signal + generator.normal(size=rows),
            "entity-mean": np.full(rows, 5.0),
        }
        columns = {
            "prediction": found["gelgt"],
            "label": label,
            **{f"baseline:{b}": found[b] for b in ("lightgbm", "entity-mean")},
        }
        return columns, {
            m: {"mae": mean_absolute_error(label, p), "rmse": mean_squared_error(label, p) ** 0.5}
            for m, p in found.items()
        }
    if kind == "binary_classification":
        chance = 1 / (1 + np.exp(-(1.6 * signal - 1)))
        label = (generator.random(rows) < chance).astype(int)
        found = {
            "gelgt": chance,
            "lightgbm": 1 / (1 + np.exp(-(signal + noise - 1))),
            "entity-mean": np.clip(0.3 + 0.1 * signal + 0.2 * noise, 0, 1),
        }
        columns = {"prediction": found["gelgt"], "probability": found["gelgt"], "label": label}
        columns |= {f"baseline:{b}": found[b] for b in ("lightgbm", "entity-mean")}
        return columns, {m: _binary(label, p) for m, p in found.items()}
    if kind == "multiclass_classification":
        logits = generator.normal(size=(rows, 3)) + np.array([1.5, 0, -0.5])
        chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        true = np.array([generator.choice(3, p=p) for p in chances])
        ranks = 1 + (chances > chances[np.arange(rows), true][:, None]).sum(1)
        columns = {f"probability_{c}": chances[:, i] for i, c in enumerate(CLASSES)}
        columns |= {
            "prediction": [CLASSES[i] for i in chances.argmax(1)],
            "label": [CLASSES[i] for i in true],
        }
        own = {
            "mrr": float((1 / ranks).mean()),
            "accuracy": accuracy_score(true, chances.argmax(1)),
        }
        return columns, {"gelgt": own, "lightgbm": {k: v - 0.05 for k, v in own.items()}}
    chances = 1 / (1 + np.exp(-generator.normal(size=(rows, 4)) + np.array([0.5, 1, 1.5, 2])))
    truth = (generator.random((rows, 4)) < chances).astype(int)
    columns = {f"probability_{c}": chances[:, i] for i, c in enumerate(LABELS)}
    columns |= {"label": [[LABELS[i] for i in np.flatnonzero(row)] for row in truth]}
    return columns, {
        "gelgt": {"macro_auprc": average_precision_score(truth, chances)},
        "entity-mean": {"macro_auprc": 0.4},
    }


def _lists(
    rows: int, generator: np.random.Generator
) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    """Lists of product keys: popular ones are right more often, and recommended still more
    often."""
    products = np.array([f"SKU-{i:03}" for i in range(40)])
    chance = 1 / np.arange(1, 41)
    chance /= chance.sum()
    right = [
        generator.choice(40, generator.integers(1, 6), replace=False, p=chance) for _ in range(rows)
    ]
    found = {
        "gelgt": np.array(
            [np.concatenate([each[:1], np.setdiff1d(np.arange(8), each[:1])])[:K] for each in right]
        ),
        "popular": np.tile(np.arange(K), (rows, 1)),
        "past": np.array([generator.choice(40, K, replace=False) for _ in range(rows)]),
    }
    columns: dict[str, Any] = {
        "prediction": [products[each].tolist() for each in found["gelgt"]],
        "label": [products[each].tolist() for each in right],
    }
    columns |= {
        f"baseline:{model}": [products[each].tolist() for each in found[model]]
        for model in ("past", "popular")
    }
    padded = np.full((rows, 5), -1)
    for row, each in enumerate(right):
        padded[row, : len(each)] = each
    return columns, {m: score("recommendation", padded, ranked) for m, ranked in found.items()}


def _binary(label: np.ndarray, chance: np.ndarray) -> dict[str, float]:
    return {
        "roc_auc": roc_auc_score(label, chance),
        "average_precision": average_precision_score(label, chance),
        "accuracy": accuracy_score(label, chance >= 0.5),
    }


def _metrics(
    kind: str, rows: int, epochs: int, scores: dict[str, dict[str, dict[str, float]]]
) -> dict[str, Any]:
    own = scores.pop("gelgt")
    metric = next(iter(own["test"]))
    best = own["val"][metric]
    worse = -1 if metric != "mae" else 1
    curve = [
        {
            "epoch": e,
            "step": 90 * e,
            "seconds": 3.2,
            "loss": 0.4 + 0.5 / e,
            "val": {metric: best + worse * 0.04 * abs(e - 7) / 7},
            "rate": 1e-3,
        }
        for e in range(1, epochs + 1)
    ]
    classes = {"multiclass_classification": CLASSES, "multilabel_classification": LABELS}.get(
        kind, []
    )
    ranking = {
        "table": "products",
        "k": K,
        "size": 420,
        "locality": {
            "customers ← orders → products": 0.31,
            "customers ← support_tickets → orders ← order_items → products": 0.125,
        },
        "popular": 0.5,
        "covered": 0.625,
        "repeats": 0.04,
    }
    return {
        **({"ranking": ranking} if kind == "recommendation" else {}),
        "format": 1,
        "run": "runs/shop-churn",
        "model": "gelgt",
        "preset": "cpu",
        "seed": 0,
        "regime": "seed-time",
        "horizon": None,
        "task": {
            "name": "customer-churn",
            "task_type": kind,
            "entity_table": "customers",
            "target": "churn",
            "sentence": "PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id",
            "sql": "SELECT t.time, c.id,\n       COUNT(o.id) = 0 AS churn\nFROM timestamps t "
            "CROSS JOIN customers c\nGROUP BY ALL",
            "timedelta": "30 days",
            "val_timestamp": "2024-01-01T00:00:00",
            "test_timestamp": "2024-07-01T00:00:00",
            "rows": {"train": 51234, "val": rows, "test": rows},
            "classes": classes,
        },
        "data": {
            "source": "postgresql://reader@db.example:5432/shop",
            "name": "shop",
            "hash": "9f2c1d7e55aa01b3c4d5e6f7",
            "tables": {
                "orders": 48211,
                "order_items": 120345,
                "customers": 3000,
                "products": 420,
                "suppliers": 35,
            },
            "nodes": 172011,
            "edges": 582200,
        },
        "metric": metric,
        "metrics": own,
        "baselines": dict(reversed(scores.items())),
        "epochs": curve,
        "best_epoch": min(7, epochs) if epochs else None,
        "seconds": 71.4,
        "phases": {"graph": 1.2, "features": 2.0, "baselines": 4.0, "training": 62.5},
        "parameters": 312345,
        "machine": {"system": "Linux", "cpus": 2, "memory_gb": 15.6, "device": "cpu"},
        "versions": {"gelgt": "0.1.0", "torch": "2.13.0", "python": "3.11.7", "numpy": "2.4.6"},
        "config": {
            "preset": "cpu",
            "model": {
                "width": 64,
                "layers": 2,
                "heads": 4,
                "keep": 100,
                "dropout": 0.1,
                "bias": "gaussian",
                "encoders": ["table", "hop", "age"],
            },
            "sampling": {
                "strategy": "bfs",
                "hops": 2,
                "budget": 150,
                "causality": "strict",
                "horizon": None,
            },
            "training": {
                "rate": 0.001,
                "time_rate": 30.0,
                "batch": 256,
                "epochs": epochs,
                "patience": 5,
                "average": True,
            },
        },
    }


def _profile(generator: np.random.Generator) -> dict[str, Any]:
    days = np.unique(np.round(np.expm1(np.linspace(0, np.log1p(730), 150)), 3))
    layers = []
    for layer in range(2):
        kernels = [(2.0, 3.0), (31.2, 4.0), (90.0, 40.0), (400.0, 150.0)]
        weights = generator.normal(size=(4, 4)) * np.array([0.4, 1.6, 0.5, 0.4])  # (heads, kernels)
        shape = np.stack([np.exp(-(((days - c) / w) ** 2)) for c, w in kernels])
        layers.append(
            {
                "layer": layer,
                "kernels": [
                    {
                        "centre_days": c,
                        "width_days": w,
                        "weights": weights[:, g].tolist(),
                        "text": f"centre {c:g} days, width {w:.1f} days",
                    }
                    for g, (c, w) in enumerate(kernels)
                ],
                "days": days.tolist(),
                "heads": (weights @ shape).tolist(),
            }
        )
    attention = {
        "seeds": 512,
        "by_table": {"orders": 0.42, "order_items": 0.31, "customers": 0.2, "products": 0.07},
        "by_hop": {"0": 0.2, "1": 0.5, "2": 0.3},
        "rows_by_table": {"orders": 0.22, "order_items": 0.61, "customers": 0.01, "products": 0.16},
        "rows_by_hop": {"0": 0.01, "1": 0.29, "2": 0.7},
    }
    return {"bias": layers, "attention": attention, "fusion": 0.52}


@pytest.fixture
def made_run(tmp_path: Path) -> MakeRun:
    """`made_run(kind, …)` writes a run folder and gives its path."""
    return lambda kind="binary_classification", **values: make_run(
        tmp_path / "runs" / kind, kind, **values
    )
