"""Batches of fixed shapes: nothing is decided by reading a value, so a step is one CUDA graph and
the host never waits. The formulas are those of the model; here is what differs.

    shape.py    how much room a batch has        pack.py     a sampled batch as one buffer of that
    input.py    the buffer, read as tensors                  room (loops.py: its loops)
    layout.py   rows and tokens in that room     form.py     a model over such batches
    blocks.py   rows by table, keys by relation
    cells.py    row features on the device       rows.py     the row encoder, all tables at once
    ops.py      lookups, products and norms      weights.py  weights in autocast's precision,
                                                             converted at once

What fills the room changes no result: filler rows stand behind the real ones in spans of their own,
filler messages have weight 0, statistics of batches count real rows only, and losses real seeds
only.
"""
