"""Planted databases, which the tests of several models share, lie beside them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for planted.py
