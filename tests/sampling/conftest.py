"""Puts this folder's helpers on the path and shares their fixture."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from conftest_sampling import make_graph

__all__ = ["make_graph"]
