"""A run: what training leaves behind, on disk (`folder.py`) and in memory (`record.py`).

Training writes it; the report, the command line, predictions and benchmarks read it.
"""
