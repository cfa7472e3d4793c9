"""Lets the tests of networks share their configurations."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for configs.py
