"""Twins: small generated databases with exactly the schemas and tasks of RelBench's, for tests
where the real ones are not available.

    from gelgt.testing.twins import make_twin
    db = gelgt.open(make_twin("rel-trial", "twins/rel-trial"))
    db.task("study-outcome")

or `python -m gelgt.testing.twins rel-trial twins/rel-trial`. A score on a twin says nothing about
the real database, since rows and labels are random. What a twin shows depends on the schema alone:
that the database opens, trains, evaluates and predicts.
"""

from gelgt.testing.twins.facts import TWINS
from gelgt.testing.twins.write import make_twin, twin_tasks

__all__ = ["TWINS", "make_twin", "twin_tasks"]
