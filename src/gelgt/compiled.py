"""numba's decorators, typed. Modules that import them are imported when they are used, because
importing numba takes longer than opening a graph.

numba caches machine code on disk and looks only at the file of the function itself: after a change
in what it calls from another file, the old code runs on until the caller's file changes too. Tests
remove such caches (tests/conftest.py).
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def _kept(**options: Any) -> Callable[[Function], Function]:
    """numba's decorator with its cache, and without where the cache has no place: a package and a
    home that cannot be written, as in some containers. Each process compiles for itself then."""

    def decorate(function: Function) -> Function:
        try:
            kernel: Function = numba.njit(cache=True, **options)(function)
        except RuntimeError:  # "no locator available"
            kernel = numba.njit(**options)(function)
        return kernel

    return decorate


compiled = _kept(nogil=True)
# Code that allocates nothing need not count references; numba would count one for most arrays at
# each call, atomically.
allocation_free = _kept(nogil=True, _nrt=False)
inlined = _kept(nogil=True, _nrt=False, inline="always")
