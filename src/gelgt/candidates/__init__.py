"""Candidates of a recommendation: the destination rows that the data proposes for a seed."""

from gelgt.candidates.find import CandidateFinder, Candidates
from gelgt.candidates.paths import Path, Step, destination_paths

__all__ = ["CandidateFinder", "Candidates", "Path", "Step", "destination_paths"]
