"""`gelgt bench suite`: every task of several databases, one table.

folders.py    the databases and their tasks, at the test or replayed at earlier origins
columns.py    what stands beside each other: parts of the model, variants, baselines, peers
run.py        trains what is missing, database by database
scores.py     predictions as points, larger is better; resampled over entities
summary.py    ranks, means, differences with their intervals
looks.py      the log of every time that test labels were scored
tables.py     the same for people
"""
