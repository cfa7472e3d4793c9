"""Other libraries that make features of relational data, with LightGBM on what they make, as
columns of a suite.

featuretools   deep feature synthesis with cutoff times
getml          FastProp on the tables that name the entity, and on what these name

A peer learns the labels that the model learns and sees the rows that it sees: strictly before each
seed time, dated alike. It runs in a process of its own, which may be of another Python: what they
require is not what gelgt requires. Files in a temporary folder lead there and back:

    exchange.py   writes tables, seeds and labels; test seeds have no labels
    process.py    starts the process, ends it at the time limit, reads its predictions
    script.py     what the process runs; it imports nothing of gelgt
"""

from gelgt.bench.peers.process import Peer, check_peer, peer_predictions

__all__ = ["Peer", "check_peer", "peer_predictions"]
