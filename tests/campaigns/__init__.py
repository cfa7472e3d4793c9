"""Campaigns: many generated cases against one promise each, counted.

    export PYTHONPATH=src:tests
    python -m campaigns files --cases 1000      # one campaign
    python -m campaigns all --minutes 60        # all of them: make campaigns
    python -m campaigns files --case 4711       # one case again, with its trace
    python -m campaigns.counts OUT              # counts into docs/reliability.md

A case is made by its number and the seed alone. `test_campaigns.py` runs the first few cases of
each, which `make test` does; what a campaign finds becomes a small test beside the code that was
wrong.
"""
