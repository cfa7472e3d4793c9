"""Databases for tests and benchmarks.

`to_csv`, `to_frames`, … write the rows of the demo shop for every kind of source, `hostile` changes
them. `lag` plants a lag, `wide` a truth among many tables, `large` and `graphs` generate
millions of rows, `twins` makes small databases with the schemas and tasks of RelBench's."""

from gelgt.testing.export import to_csv, to_duckdb, to_frames, to_parquet, to_sql

__all__ = ["to_csv", "to_duckdb", "to_frames", "to_parquet", "to_sql"]
