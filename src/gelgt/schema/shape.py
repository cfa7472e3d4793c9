"""Files that people edit: where one does not have the shape that its reader expects, that is told
as an error of the file."""

from collections.abc import Iterator
from contextlib import contextmanager

from gelgt.errors import GelgtError

# What plain Python raises over values of another type: a text where a mapping should be, a list as
# a key, a number that fits nowhere.
WRONG_SHAPE = (
    AttributeError,
    IndexError,
    KeyError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)


@contextmanager
def shaped(
    where: str,
    code: str = "bad_manifest",
    hint: str = "Repair the file, or write it again.",
    kind: type[GelgtError] = GelgtError,
) -> Iterator[None]:
    """Tell what a file of another shape makes fail while it is taken apart.

    Args:
        where: The file, for the message.
        code: Of the error.
        hint: Of the error.
        kind: Of the error.
    """
    try:
        yield
    except WRONG_SHAPE as error:
        detail = f"{type(error).__name__}: {error}"[:200]
        raise kind(
            code, f"{where} does not have the shape that it should ({detail}).", hint
        ) from None
