"""Twins: small made-up databases with exactly the schemas and tasks of RelBench's, for tests where
the real ones are not at hand.

    from gelgt.testing.twins import make_twin
    db = gelgt.open(make_twin("rel-trial", "twins/rel-trial"))
    db.task("study-outcome")

or `python -m gelgt.testing.twins rel-trial twins/rel-trial`. A score on a twin says nothing about
the real database: rows and labels are made up. What holds for it is what depends on the schema
alone: that it opens, trains, evaluates and predicts.
"""

from gelgt.testing.twins.facts import TWINS
from gelgt.testing.twins.write import make_twin, twin_tasks

__all__ = ["TWINS", "make_twin", "twin_tasks"]
