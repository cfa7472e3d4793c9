"""Models of other papers that read the same subgraphs, one file each: `--model rdl`, `relgnn`, …
(docs/models.md).

They are imported when they are asked for (`gelgt.registry`); `parts.py` has what they share.
"""
