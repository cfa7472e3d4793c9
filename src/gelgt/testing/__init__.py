"""Databases with known truths, for the demo, for tests and for benchmarks.

`shop` writes a small online shop with planted signals, `to_*` write the same rows for every kind of
source, and `gelgt.testing.large` generates a database of millions of rows. `gelgt.testing.twins`
makes small databases with the schemas and tasks of RelBench's.
"""

from gelgt.testing.export import to_csv, to_duckdb, to_frames, to_parquet, to_sql
from gelgt.testing.shop_file import Shop, shop

__all__ = ["Shop", "shop", "to_csv", "to_duckdb", "to_frames", "to_parquet", "to_sql"]
