"""① The temporal graph of a database: one node a row, both directions of every foreign key, on
disk.

graph = open_graph(db)          # built once, then memory-mapped
graph.neighbours(node)          # parents in key order, then children, newest first
"""

from gelgt.graph.build import build_graph, open_graph
from gelgt.graph.store import NEVER, TIMELESS, Graph

__all__ = ["NEVER", "TIMELESS", "Graph", "build_graph", "open_graph"]
