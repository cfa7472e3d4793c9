"""A competent pure-Python sampler, the peer of `gelgt bench sampling`: prebuilt adjacency lists,
dict look-ups, same output.

It does what one would write without compiled code: a breadth-first search over per-node Python
lists (parents, then children newest first, with a bisection to the first child before the seed
time), and induced edges from each row's own foreign keys.
"""

from bisect import bisect_right

from gelgt.graph import TIMELESS, Graph


class PythonSampler:
    """Breadth-first sampling with prebuilt lists."""

    def __init__(self, graph: Graph) -> None:
        self.time: list[int] = graph.node_time.tolist()
        indptr, indices = graph.indptr.tolist(), graph.indices.tolist()
        self.keys: list[list[tuple[int, int]]] = []
        for number, table in enumerate(graph.tables):
            relations = graph.relation_of[number].tolist()
            for row in graph.table_parents(table).tolist():
                self.keys.append(
                    [(parent, relation) for parent, relation in zip(row, relations) if parent >= 0]
                )
        self.children = [
            indices[indptr[n] + len(self.keys[n]) : indptr[n + 1]] for n in range(graph.num_nodes)
        ]
        # Newest first, so the negated times rise and bisect can find the first child before a time.
        self.child_times = [[-self.time[c] for c in listed] for listed in self.children]

    def sample(
        self, seed: int, limit: int, budget: int, hops: int
    ) -> tuple[list[int], list[int], list[float], list[tuple[int, int, int]]]:
        """Nodes, hops, ages in days from `limit`, and edges (place of the child, place of the
        parent, relation)."""
        nodes, depths = self._search(seed, limit, budget, hops)
        place = {node: i for i, node in enumerate(nodes)}
        ages = [
            0.0 if self.time[node] == TIMELESS else max(limit - self.time[node], 0) / 86400.0
            for node in nodes
        ]
        ages[0] = 0.0
        edges = [
            (i, place[parent], relation)
            for i, node in enumerate(nodes)
            for parent, relation in self.keys[node]
            if parent in place
        ]
        return nodes, depths, ages, edges

    def _search(self, seed: int, limit: int, budget: int, hops: int) -> tuple[list[int], list[int]]:
        nodes, depths, seen = [seed], [0], {seed}
        time, first = self.time, 0
        for depth in range(1, hops + 1):
            last = len(nodes)
            for i in range(first, last):
                node = nodes[i]
                listed = self.children[node]
                admitted = (
                    listed[bisect_right(self.child_times[node], -limit) :] if listed else listed
                )
                for other in [p for p, _ in self.keys[node] if time[p] < limit] + admitted:
                    if other not in seen:
                        if len(nodes) == budget:
                            return nodes, depths
                        seen.add(other)
                        nodes.append(other)
                        depths.append(depth)
            first = last
        return nodes, depths
