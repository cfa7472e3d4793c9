"""`require`: an optional package, or an error that says how to install it."""

from importlib import import_module
from typing import Any

from gelgt.errors import GelgtError


def require(module: str, extra: str) -> Any:
    """A module of an optional package.

    Raises:
        GelgtError: ``missing_extra``: the package, or one that it needs, is not installed.

    Example:
        >>> require("json", "nothing").dumps([1])
        '[1]'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise GelgtError(
            "missing_extra",
            f"This needs the package '{error.name}', which is not installed.",
            hint=f"pip install 'gelgt[{extra}]'",
        ) from None
