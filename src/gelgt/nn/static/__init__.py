"""The model over batches of fixed shapes: nothing is decided by reading a value, so a step is one
CUDA graph and the host never waits.

    shape.py   how much room a batch has pack.py a sampled batch as one buffer of that room
               (loops.py: its loops)
    cells.py   row features on the device        rows.py      the row encoder, all tables at once
    ops.py     gathers and sums in a fixed order weights.py weights in autocast's precision,
               converted at once
    forward.py the model over such a batch

What fills the room changes no result: filler rows stand behind the real ones in subgraphs of their
own, filler edges belong to no row, statistics of batches count real rows only, and losses real
seeds only.
"""
