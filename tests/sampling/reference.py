"""A slow, obvious sampler: plain Python, written from the definition (docs/sampling.md), to compare
the kernels with.

Nothing is shared with the library but the graph's `node_time`, `parents` and table layout, the raw
facts of a database.
"""

from dataclasses import dataclass

from gelgt.graph import NEVER, TIMELESS, Graph


@dataclass
class Subgraph:
    nodes: list[int]
    hops: list[int]
    edges: set[tuple[int, int, int]]  # (child node, parent node, relation)
    is_cut: bool


class Reference:
    def __init__(self, graph: Graph) -> None:
        self.time = [int(t) for t in graph.node_time]
        # node -> [(parent, relation)]
        self.keys: list[list[tuple[int, int]]] = [[] for _ in self.time]
        self.children: list[list[int]] = [[] for _ in self.time]
        for number, table in enumerate(graph.tables):
            for row, parents in enumerate(graph.table_parents(table).tolist()):
                node = int(graph.offsets[number]) + row
                for key, parent in enumerate(parents):
                    if parent >= 0:
                        self.keys[node].append((parent, int(graph.relation_of[number][key])))
                        self.children[parent].append(node)
        for listed in self.children:
            listed.sort(key=lambda node: (-self.time[node], node))
        self.tables = [range(int(a), int(b)) for a, b in zip(graph.offsets[:-1], graph.offsets[1:])]

    def is_visible(self, node: int, limit: int) -> bool:
        if self.time[node] == NEVER:
            return False
        return self.time[node] == TIMELESS or self.time[node] < limit

    def neighbours(self, node: int, limit: int, fanout: int | None = None) -> list[int]:
        """Parents in key order, then children newest first, at most `fanout` of them; only rows
        that may be seen."""
        parents = [p for p, _ in self.keys[node] if self.is_visible(p, limit)]
        return parents + [n for n in self.children[node] if self.is_visible(n, limit)][:fanout]

    def search(
        self, seed: int, limit: int, budget: int | None, hops: int, fanout: int | None = None
    ) -> tuple[list[int], list[int], bool]:
        nodes, depth = [seed], {seed: 0}
        for node in nodes:  # grows while it is read: breadth first
            if depth[node] == hops:
                break
            for other in self.neighbours(node, limit, fanout):
                if other in depth:
                    continue
                if budget is not None and len(nodes) == budget:
                    return nodes, [depth[n] for n in nodes], True
                depth[other] = depth[node] + 1
                nodes.append(other)
        return nodes, [depth[n] for n in nodes], False

    def bfs(
        self, seed: int, limit: int, budget: int | None, hops: int, fanout: int | None = None
    ) -> Subgraph:
        nodes, depths, is_cut = self.search(seed, limit, budget, hops, fanout)
        return Subgraph(nodes, depths, self.induced(nodes), is_cut)

    def recent(self, seed: int, limit: int, budget: int, hops: int) -> Subgraph:
        nodes, depths, is_cut = self.search(seed, limit, budget - budget // 2, hops)
        timed = [
            n
            for table in self.tables
            for n in table
            if self.time[n] not in (NEVER, TIMELESS) and self.time[n] < limit
        ]
        newest = sorted(
            timed,
            key=lambda n: (-self.time[n], next(i for i, t in enumerate(self.tables) if n in t), -n),
        )
        for node in newest:
            if len(nodes) == budget:
                break
            if node not in nodes:
                nodes.append(node)
                depths.append(hops + 1)
        return Subgraph(nodes, depths, self.induced(nodes), is_cut)

    def induced(self, nodes: list[int]) -> set[tuple[int, int, int]]:
        inside = set(nodes)
        return {
            (node, parent, relation)
            for node in nodes
            for parent, relation in self.keys[node]
            if parent in inside
        }
