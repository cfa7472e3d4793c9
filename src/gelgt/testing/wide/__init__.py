"""A wide generated database: a retail operation of 24 tables, 200 numeric columns and about 600,000
rows, with a task of about 80,000 labels whose truth is known.

    from gelgt.testing.wide import wide_database
    shop = wide_database("wide")                  # or: python -m gelgt.testing.wide wide
    gelgt.open(shop.folder), shop.sentence, shop.oracle_auc

schema.py    the tables: keys, time, number of numeric columns
rows.py      which rows there are, when, and which rows they refer to
columns.py   the values of the columns
truth.py     the planted probability of a label, from the rows before its time
write.py     the Parquet folder, and what is true about it

Columns say by their names what they are (`noise_3`, `copy_5`, `constant_9`), so that a list of the
columns that a model uses can be judged at a glance. What decides the label is in `truth.py`.
"""

from gelgt.testing.wide.write import WideDatabase, wide_database

__all__ = ["WideDatabase", "wide_database"]
