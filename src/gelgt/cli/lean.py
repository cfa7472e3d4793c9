"""What the process of a command does without, and what that of `gelgt predict` does.

A prediction for a few entities takes a tenth of a second; nearly all of its process is libraries
that are loaded and unloaded. In a process of its own, never in a library, a prediction leaves out
all of this, and every other command the last:

    torch._meta_registrations   shapes of operations on the meta device, which only compilation,
                                export and transformers' loader ask for; loaded when one is used
    scipy                       numba loads it to see whether it could compile products of matrices,
                                of which our kernels have none
    the end                     freeing every object of every module before the process is gone

None of them takes part in a computation on a CPU: predictions are the same bits with and without.
"""

import atexit
import gc
import importlib
import os
import sys
import threading
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, ClassVar

SHAPES = "torch._meta_registrations"
COMPILERS = ("torch._dynamo", "torch._inductor")  # count on what is loaded with the shapes
PRODUCTS, BLAS = "numba.np.arraymath", "scipy.linalg.cython_blas"


def prepare() -> None:
    """Leave these things out of this process; before torch and numba are loaded."""
    # Loading makes many objects and no garbage; `RunOptions.load` looks for garbage from then on.
    gc.disable()
    sys.meta_path.insert(0, _Finder())


def load_deferred() -> None:
    """Load what was put off, for a model or a device that may ask for it unseen."""
    module = sys.modules.get(SHAPES)
    if isinstance(module, _Deferred):
        module.load()


def end() -> None:
    """End the process with success, unless a thread is still at work: then it ends as usual."""
    if threading.active_count() > 1:
        return
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class _Finder(MetaPathFinder):
    """Comes before Python's own finders, for a few modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in COMPILERS:
            load_deferred()
        if fullname == SHAPES and fullname not in _Deferred.loaded:
            return ModuleSpec(fullname, _DeferredLoader())
        if fullname == PRODUCTS and BLAS not in sys.modules:
            spec = PathFinder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _WithoutBlas(spec.loader)
            return spec
        return None


class _Deferred(ModuleType):
    """Stands for a module until one of its names is asked for.

    `importlib.util.LazyLoader` loads at any attribute; `inspect`, which PyTorch uses while it
    registers operators, asks every module for its file.
    """

    loaded: ClassVar[set[str]] = set()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.load(), name)

    def load(self) -> ModuleType:
        """The module itself, in the place of this one."""
        _Deferred.loaded.add(self.__name__)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return importlib.import_module(self.__name__)


class _DeferredLoader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Deferred(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run yet."""


class _WithoutBlas(Loader):
    """Loads a module that does without SciPy where it is not installed as if it were not."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[BLAS] = None  # type: ignore[assignment]  # how Python marks a missing module
        try:
            self.loader.exec_module(module)
        finally:
            del sys.modules[BLAS]
