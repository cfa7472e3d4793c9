"""`Explainer`: explanations of what a predictor predicts.

Deletion is the truth here: a row's effect is how the prediction changes without it, in the
network, in the history columns that the columns network and the trees read, and in their mix.
One-by-one deletion proposes which rows are looked at; Owen values divide (`explain/owen.py`); the
check removes and adds rows in that order (`explain/check.py`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

from gelgt.errors import GelgtError
from gelgt.explain.check import Check, checking, nothing
from gelgt.explain.clock import Clock
from gelgt.explain.counterfactual import counterfactual
from gelgt.explain.explanation import Effect, Explanation
from gelgt.explain.levels import Part
from gelgt.explain.naming import Cells, Keys, Names
from gelgt.explain.neighbourhood import Neighbourhood
from gelgt.explain.owen import Division, Effort
from gelgt.explain.sentences import key_text, summary
from gelgt.explain.stand_ins import ABSENT, readable_columns
from gelgt.explain.variants import Floats, Outputs, States, Variants, neighbourhood
from gelgt.graph import NEVER, TIMELESS
from gelgt.inference import Predictor
from gelgt.sampling import Seeds, make_seeds
from gelgt.scoring.recommend import RecommendScorer

NOTHING = ("no_rows", "before_all_rows")  # there is nothing to explain
THRESHOLD = 0.5  # of a probability, where a decision turns


class Explainer:
    """Explains predictions.

    Args:
        predictor: A run on a source.
        effort: How much is asked for.

    Raises:
        GelgtError: ``not_explained`` for runs that recommend.
    """

    def __init__(self, predictor: Predictor, effort: Effort | None = None) -> None:
        if isinstance(predictor.scorer, RecommendScorer):
            raise GelgtError(
                "not_explained",
                "The run recommends lists of rows, which are explained one list at a time.",
                hint="Use explain_list, or gelgt explain RUN --entity E --at T.",
            )
        self.predictor, self.scorer = predictor, predictor.scorer
        self.data, self.effort = predictor.scorer.data, effort or Effort()
        self.keys, self.cells = Keys(self.data.db), Cells(self.data.features)
        self.clock = Clock()
        self.columns = readable_columns(
            predictor.db, self.data.features, self.data.hide, self.data.task_data.hidden
        )

    def explain(
        self, entity: Any, at: Any = None, *, is_counterfactual: bool = False
    ) -> Explanation:
        """Explain the prediction for one entity at a time.

        Raises:
            GelgtError: ``unknown_keys``, ``not_there_yet``, ``before_all_rows``, ``no_rows``, …
        """
        is_one = isinstance(entity, (str, bytes, tuple, Mapping)) or not isinstance(
            entity, Iterable
        )
        if not is_one:
            raise GelgtError(
                "bad_option",
                "One entity is explained at a time.",
                hint="Call explain for each, or give several --entity to gelgt explain.",
            )
        return next(self.explain_all([entity], at, is_counterfactual=is_counterfactual))

    def explain_all(
        self,
        entities: Any = None,
        at: Any = None,
        frame: Any = None,
        *,
        is_counterfactual: bool = False,
    ) -> Iterator[Explanation]:
        """Explain one prediction after the other; arguments as in `Predictor.predict`. Of several,
        one without any row gets an explanation that says so and has no effects."""
        chosen = self.predictor.seeds(entities, at, frame)
        for row, time in zip(chosen.rows, chosen.times):
            seed = make_seeds(
                self.data.db, self.data.graph, self.data.task.entity_table, [row], [time]
            )
            try:
                made = self.explain_seed(seed, is_counterfactual=is_counterfactual)
            except GelgtError as error:
                if len(chosen) == 1 or error.code not in NOTHING:
                    raise
                made = self._without_rows(seed, error.message)
            yield replace(made, notices=(*chosen.notices, *made.notices))

    def explain_seed(self, seed: Seeds, *, is_counterfactual: bool = False) -> Explanation:
        """Explain the prediction of one seed."""
        clock = self.clock
        with clock("neighbourhood"):
            hood = neighbourhood(self.scorer, seed)
            self._check(hood)
            variants = Variants(self.scorer, hood, clock)
            variants.output = self.output_of(seed)
        # the same question gives the same bits
        rng = np.random.default_rng([int(seed.key[0]), int(seed.time[0]) % 2**63])
        with clock("questions"):
            division = Division(variants, self.columns, rng, self.effort)
            score = division.rows(_one_by_one(variants), nothing(hood)[None])
            columns = division.columns_of_rows()
            with clock("attention"):
                is_shown = self.scorer.networks[0].shows_attention
                attention = variants.attention() if is_shown else None
            asked = checking(variants, score, attention, rng)
            variants.outputs(np.concatenate([*columns.states, asked.states]))  # all at once
            columns.play(variants)
            parts, checked = division.parts(), asked.done(variants)
            before = variants.outputs(division.empty)
        with clock("naming"):
            made = self._named(variants, parts, score, before, checked)
        if not is_counterfactual:
            return made
        return replace(made, counterfactual=self._turned(variants, score, made.what))

    def _named(
        self,
        variants: Variants,
        parts: tuple[Part, ...],
        score: Floats,
        before: Outputs,
        checked: Check,
    ) -> Explanation:
        """An explanation in the user's own terms."""
        hood, now = variants.hood, variants.outputs(variants.full[None])
        names = Names(self.data, hood, list(now.parts), self.keys, self.cells)
        what = self.what(variants.output)
        effects = sorted(
            (names.effect(leaf, what) for part in parts for leaf in part.leaves),
            key=lambda effect: -abs(effect.effect),
        )
        paths = [
            inner
            for part in parts
            for inner in (part.inside if part.player.kind == "branch" else (part,))
        ]
        notices = () if checked.is_better_than_random else (
            "The order of these rows is no better than a random order.",
        )  # fmt: skip
        return Explanation(
            entity=names.key(0),
            table=hood.table(0),
            at=str(np.datetime64(int(hood.seed.time[0]), "s")),
            prediction=float(now.values[0]),
            base=float(before.values.mean()),
            base_rate=self._base_rate(variants.output),
            what=what,
            effects=tuple(effects),
            paths=_by_path(names, paths, what),
            parts={
                name: {"base": float(before.parts[name].mean()), "prediction": float(raw[0])}
                for name, raw in now.parts.items()
            },
            check=checked.to_dict(),
            sentences=summary(effects, what),
            timeline=_timeline(names, hood, score),
            notices=notices,
            variants=variants.asked,
        )

    def _without_rows(self, seed: Seeds, why: str) -> Explanation:
        hood = neighbourhood(self.scorer, seed)
        output = self.output_of(seed)
        value = self.scorer.predict(seed).together.reshape(1, -1)[0, output]
        return Explanation(
            entity=Names(self.data, hood, []).key(0),
            table=hood.table(0),
            at=str(np.datetime64(int(seed.time[0]), "s")),
            prediction=float(value),
            base=float(value),
            base_rate=self._base_rate(output),
            what=self.what(output),
            notices=(why,),
        )

    # What is explained.
    def output_of(self, seed: Seeds) -> int:
        """The class that is predicted, or the most probable label."""
        if self.data.target.outputs == 1:
            return 0
        return int(self.scorer.predict(seed).together[0].argmax())

    def what(self, output: int | None = None) -> str:
        """What is explained, in words."""
        kind, labels = self.data.target.task_type, self.data.target.space.labels
        if kind == "regression":
            is_whole = self.data.target.is_whole
            return "the prediction before it is rounded" if is_whole else "the prediction"
        if kind == "binary_classification":
            return "the probability"
        return f"the probability of {'the class' if output is None else labels[output]}"

    def _base_rate(self, output: int) -> float:
        import torch

        decoded = self.data.target.values(torch.tensor([self.data.target.start]))
        return float(decoded[0] if decoded.ndim == 1 else decoded[0, output])

    def _turned(self, variants: Variants, score: Floats, what: str) -> dict[str, Any]:
        names = Names(self.data, variants.hood, [], self.keys)
        is_value = self.data.target.task_type == "regression"
        threshold = self.data.target.centre if is_value else THRESHOLD
        found = counterfactual(variants, score, threshold)
        rows = [
            {
                "table": variants.hood.paths[unit].table,
                "path": list(variants.hood.paths[unit].tables),
                "key": names.key(unit) if unit < variants.hood.num_rows else None,
                "rows": int(variants.hood.sizes[unit]),
                "age_days": _finite(variants.hood.ages[unit]),
            }
            for unit in found.units
        ]
        listed = [
            f"{row['table']} {key_text(row['key'])}"
            if row["rows"] == 1 and row["key"] is not None
            else f"{row['rows']:,} older rows of {row['table']}"
            for row in rows
        ]
        text = (
            f"Without {', '.join(listed)}, {what} would be {found.prediction:.3g}, on the other "
            f"side of {threshold:.3g}."
            if rows
            else f"No set of rows was found whose absence moves {what} across {threshold:.3g}."
        )
        return {"threshold": threshold, "prediction": found.prediction, "rows": rows, "text": text}

    def _check(self, hood: Neighbourhood) -> None:
        if hood.num_units > 1:
            return
        entity, at = hood.table(0), np.datetime64(int(hood.seed.time[0]), "s")
        times = self.data.graph.node_time
        timed = times[(times != TIMELESS) & (times != NEVER)]
        if len(timed) and int(hood.seed.time[0]) <= timed.min():
            first = np.datetime64(int(timed.min()), "s")
            raise GelgtError(
                "before_all_rows",
                f"At {at} there is no row yet: the first is from {first}.",
                hint="Ask for a later time.",
            )
        key = Names(self.data, hood, []).key(0)
        raise GelgtError(
            "no_rows",
            f"No row of any table is linked to {key!r} of '{entity}' before {at}: the prediction "
            "rests on the entity's own columns alone.",
            hint="Ask for a later time, or for an entity with rows.",
        )


def _one_by_one(variants: Variants) -> States:
    """(U, U) the states in which each unit alone is absent; the first is whole."""
    count = variants.hood.num_units
    states = np.repeat(variants.full[None], count, 0)
    states[np.arange(1, count), np.arange(1, count)] = ABSENT
    return states


def _by_path(names: Names, paths: list[Part], what: str) -> tuple[Effect, ...]:
    effects = [names.effect(part, what) for part in paths]
    return tuple(sorted(effects, key=lambda effect: -effect.strength))


def _timeline(names: Names, hood: Neighbourhood, score: Floats) -> tuple[dict[str, Any], ...]:
    ages, effects = hood.ages.tolist(), score.tolist()
    return tuple(
        {
            "table": hood.paths[unit].table,
            "path": list(hood.paths[unit].tables),
            "key": names.key(unit),
            "time": names.time(unit),
            "age_days": _finite(ages[unit]),
            "via_days": _finite(hood.via_ages[unit]),
            "effect": effects[unit],
        }
        for unit in range(1, hood.num_rows)
    )


def _finite(value: float) -> float | None:
    return round(float(value), 3) if isfinite(value) else None
