"""Campaigns: many generated cases against one promise each, counted.

    PYTHONPATH=src:tests python -m campaigns files --cases 1000     # one campaign
    PYTHONPATH=src:tests python -m campaigns all --minutes 60       # all of them: make campaigns
    PYTHONPATH=src:tests python -m campaigns files --case 4711      # one case again, with its trace
    PYTHONPATH=src:tests python -m campaigns.counts OUT             # counts into docs/reliability.md

A case is made by its number and the seed alone. `test_campaigns.py` runs the first few cases of each,
which `make test` does; what a campaign finds becomes a small test beside the code that was wrong.
"""
