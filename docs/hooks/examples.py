"""An extension of Griffe, which reads the docstrings: `Example:` is a section of code, as
`Examples:` is, and not a remark whose `>>>` would be drawn as quotations."""

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Gives every docstring the heading that Griffe knows."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(
                r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE
            )
