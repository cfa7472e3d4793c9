"""Why a destination is recommended: what ties the entity to it, and what its score would be without
that.

    path      no walk along the path leads to it; the newest walks are named, row by row
    shared    nothing that the entity has had shares its value
    everyone  as often linked by everyone as other candidates are
    past      with the past of other candidates

Each is taken away alone, so effects do not add up. Beside the effect on the score stands the place
that the destination would have, the others as they are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gelgt.candidates.alike import COLUMNS as ALIKE
from gelgt.candidates.columns import TIES, WINDOWS
from gelgt.candidates.find import BOUNDS, CandidateFinder, Candidates
from gelgt.candidates.paths import Path, path_names
from gelgt.errors import GelgtError
from gelgt.explain.items import PLACES, Item, ItemsExplanation, Reason
from gelgt.graph import NEVER, TIMELESS
from gelgt.history.columns import DAY
from gelgt.inference import Predictor, Recommend
from gelgt.sampling import Seeds, make_seeds
from gelgt.scoring.recommend import RecommendScorer, Wish
from gelgt.scoring.table import key_table

ITEMS = 5  # recommendations that are explained
DRAWS = 16  # other candidates whose columns stand in
WALKS = 3  # that are named, the newest


def explain_list(
    predictor: Predictor, entity: Any, at: Any = None, k: int = ITEMS, *, new_only: bool = False
) -> ItemsExplanation:
    """Explain the first k recommendations to one entity at a time.

    Args:
        new_only: Of what the entity has not had before.

    Raises:
        GelgtError: ``bad_option`` where the run recommends nothing; as in `Predictor.predict`.
    """
    scorer = predictor.scorer
    if not isinstance(scorer, RecommendScorer):
        raise GelgtError(
            "bad_option",
            "The run predicts a value: it recommends no rows.",
            hint="Explain it with Explainer, or gelgt explain.",
        )
    chosen = predictor.seeds([entity], at)
    data = scorer.data
    seed = make_seeds(data.db, data.graph, data.task.entity_table, chosen.rows, chosen.times)
    made = explain_items(scorer, seed, Recommend(k, new_only).wish(data.db, data.task))
    return replace(made, notices=tuple(chosen.notices))


def explain_items(scorer: RecommendScorer, seed: Seeds, wish: Wish) -> ItemsExplanation:
    """Explain the first recommendations of one seed that exists."""
    destinations, data = scorer.destinations, scorer.data
    finder = destinations.finder
    most = min(finder.size, max(PLACES, wish.k))
    ranked = scorer.rank(seed, Wish(most, wish.allowed, wish.new_only))
    candidates = finder.find(seed)
    columns = destinations.reader.read(seed, candidates).whole()[0]
    # the same question gives the same bits
    rng = np.random.default_rng([int(seed.key[0]), int(seed.time[0]) % 2**63])
    there = np.flatnonzero(candidates.row[0] >= 0)
    drawn = columns[rng.choice(there, DRAWS)] if len(there) else columns[:0]
    chosen = np.flatnonzero(ranked.row[0] >= 0)[: wish.k].tolist()
    keys = keys_of_rows(data.db, destinations.table, ranked.row[0][chosen])
    items = []
    for place, key in zip(chosen, keys):
        row, score = int(ranked.row[0, place]), float(ranked.score[0, place])
        at = np.flatnonzero(candidates.row[0] == row)
        reasons: list[Reason] = []
        if len(at):
            others = np.delete(ranked.score[0], place)
            asked = _Asked(scorer, seed, candidates, int(at[0]), columns[at[0]], drawn)
            reasons = sorted(asked.reasons(others), key=lambda reason: -abs(reason.effect))
        items.append(Item(place + 1, key, score, tuple(reasons)))
    entity = data.task.entity_table
    first = int(data.graph.offsets[data.graph.table_number(entity)])
    return ItemsExplanation(
        keys_of_rows(data.db, entity, seed.node[:1] - first)[0],
        entity,
        str(np.datetime64(int(seed.time[0]), "s")),
        destinations.table,
        tuple(items),
    )


@dataclass(frozen=True)
class _Asked:
    """One candidate of one seed.

    Attributes:
        place: Of it among the candidates.
        own: (F,) its columns.
        drawn: (n, F) those of others.
    """

    scorer: RecommendScorer
    seed: Seeds
    candidates: Candidates
    place: int
    own: NDArray[np.float32]
    drawn: NDArray[np.float32]

    def reasons(self, others: NDArray[np.float32]) -> Iterator[Reason]:
        row = int(self.candidates.row[0, self.place])
        groups = list(self._groups())
        variants = [self.own[None], *(changed for _, changed in groups)]
        values = self.scorer.scores_with(
            self.seed, row, torch.from_numpy(np.concatenate(variants))
        ).cpu()
        score, at = float(values[0]), 1
        for reason, changed in groups:
            without = float(values[at : at + len(changed)].mean())
            at += len(changed)
            place = int(np.count_nonzero(others > without)) + 1
            yield Reason(
                reason.kind,
                reason.name,
                score - without,
                place if place <= PLACES else None,
                reason.count,
                reason.days,
                reason.walks,
            )

    def _groups(self) -> Iterator[tuple[Reason, NDArray[np.float32]]]:
        """What can be taken away, and the columns (n, F) without it."""
        reader = self.scorer.destinations.reader
        finder, begin = reader.finder, 0
        count = self.candidates.count[0, self.place]
        newest = self.candidates.newest[0, self.place]
        reference = int(finder.references(self.seed)[0])
        row = int(self.candidates.row[0, self.place])
        for number, (path, name) in enumerate(zip(finder.paths, path_names(finder.paths))):
            if count[number]:
                age = None if newest[number] == TIMELESS else (reference - newest[number]) / DAY
                walks = tuple(
                    tuple(self._named(node) for node in trail)
                    for trail in newest_walks(finder, path, self.seed, row)
                )
                reason = Reason("path", name, 0.0, None, int(count[number]), age, walks)
                yield reason, self._with(begin, [0.0, 0.0, np.nan])
            begin += len(TIES)
        for attribute in reader.attributes:
            if self.own[begin] > 0:
                yield Reason("shared", attribute.name, 0.0, None), self._with(begin, [0.0, 0.0])
            begin += len(ALIKE)
        end = begin + 2 * len(WINDOWS)
        yield (
            Reason("everyone", "how often everyone had it lately", 0.0, None),
            self._like(begin, end),
        )
        if len(self.own) > end:
            yield (
                Reason("past", "its own past and columns", 0.0, None),
                self._like(end, len(self.own)),
            )

    def _named(self, node: int) -> dict[str, Any]:
        """A row on a walk."""
        data = self.scorer.data
        graph, seconds = data.graph, int(data.graph.node_time[node])
        number = int(np.searchsorted(graph.offsets, node, side="right")) - 1
        row = np.array([node - int(graph.offsets[number])])
        return {
            "table": graph.tables[number],
            "key": keys_of_rows(data.db, graph.tables[number], row)[0],
            "time": None if seconds in (NEVER, TIMELESS) else str(np.datetime64(seconds, "s")),
        }

    def _with(self, begin: int, values: Sequence[float]) -> NDArray[np.float32]:
        out = self.own[None].copy()
        out[0, begin : begin + len(values)] = values
        return out

    def _like(self, begin: int, end: int) -> NDArray[np.float32]:
        out = np.repeat(self.own[None], len(self.drawn), 0)
        out[:, begin:end] = self.drawn[:, begin:end]
        return out


def newest_walks(
    finder: CandidateFinder, path: Path, seed: Seeds, row: int
) -> list[tuple[int, ...]]:
    """The newest walks of a seed along a path that end at a destination, bounded as candidates
    are: the nodes between the entity and the destination."""
    graph, limit = finder.graph, int(finder.limits(seed)[0])
    end = int(graph.offsets[graph.table_number(finder.destination)]) + row
    trails: list[tuple[int, ...]] = [(int(seed.node[0]),)]
    for step in path.steps:
        table = graph.table_number(step.key.child)
        start, stop = int(graph.offsets[table]), int(graph.offsets[table + 1])
        keys = graph.table_parents(step.key.child)[:, step.key.place]
        longer: list[tuple[int, ...]] = []
        for trail in trails:
            node = trail[-1]
            if not step.is_down:
                parent = int(keys[node - start])
                if parent >= 0 and graph.node_time[parent] < limit:
                    longer.append((*trail, parent))
                continue
            children = [
                int(child)
                for child in graph.neighbours(node)
                if start <= child < stop
                and keys[child - start] == node
                and graph.node_time[child] < limit
            ]
            longer += [(*trail, child) for child in children[: BOUNDS.fanout]]
        trails = longer[: BOUNDS.width]
    ended = [trail[1:-1] for trail in trails if trail[-1] == end]
    ended.sort(key=lambda trail: -max((int(graph.node_time[n]) for n in trail), default=TIMELESS))
    return ended[:WALKS]


def keys_of_rows(db: Any, table: str, rows: NDArray[np.int64]) -> list[Any]:
    """The user's keys of rows; composite ones as lists."""
    keys = key_table(db, table, rows)
    columns = [column.to_pylist() for column in keys.columns]
    return columns[0] if len(columns) == 1 else [list(key) for key in zip(*columns)]
