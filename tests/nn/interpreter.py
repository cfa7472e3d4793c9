"""Triton's interpreter, by which tests of kernels run without a CUDA device, at small sizes.

A test file of kernels marks its tests `on_device`: they need a CUDA device. test_interpreted.py
runs the same tests in a process of its own without one. The interpreter takes about a second for a
kernel and its gradients, so it is given one case of each path through the kernels; the rest of a
grid, `beyond_paths`, carries the marker `slow` there.
"""

import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from gelgt.nn.kernels import triton_version

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = torch.device("cpu" if IS_INTERPRETED else "cuda")
# bf16 is the precision of training, but the interpreter cannot multiply it.
LOW = torch.float16 if IS_INTERPRETED else torch.bfloat16
Test = Callable[..., None]
# In one thread nothing happens in another order.
one_thread = pytest.mark.skipif(IS_INTERPRETED, reason="the interpreter has one thread")


def remember_builtins() -> None:
    """Triton's interpreter replaces the builtins of its language at each call of a function,
    within kernels too, and looks through every member for them each time, which takes a third of
    the whole. Which members they are never changes."""
    from triton import language
    from triton.runtime import interpreter

    packages = (language, language.core, language.math, language.tensor)
    places = {id(each): each for each in (*packages, language.core.tensor_descriptor_base)}
    names = {
        place: [
            name for name, member in inspect.getmembers(each) if language.core.is_builtin(member)
        ]
        for place, each in places.items()
    }

    def patch(package: Any, *rest: Any) -> None:
        for name in names[id(package)]:
            member = getattr(package, name)
            if language.core.is_builtin(member):  # and not replaced already, by a caller
                interpreter._patch_attr(package, name, member, *rest)

    assert callable(interpreter._patch_builtin)
    interpreter._patch_builtin = patch


if IS_INTERPRETED:
    remember_builtins()


def on_device(test: Test) -> Test:
    """A test that needs a CUDA device or the interpreter."""
    if IS_INTERPRETED:
        return test
    skip = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    marked: Test = pytest.mark.gpu(skip(test))
    return marked


def beyond_paths(*values: object) -> Any:
    """A case that takes no path through the kernels that other cases do not take."""
    return pytest.param(*values, marks=pytest.mark.slow if IS_INTERPRETED else ())


def run_interpreted(files: Sequence[Path], marked: str) -> None:
    """Run the tests of some files with a marker, or without it, through the interpreter."""
    if find_spec("triton") is None:
        pytest.skip("needs Triton for its interpreter: pip install 'triton>=3.7'")
    if triton_version() < (3, 7):
        pytest.skip("the interpreter of Triton 3.6 fails with NumPy 2.4: pip install 'triton>=3.7'")
    plugins = ("-p", "no:cacheprovider", "-p", "no:xdist")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *files, "-x", "-m", marked, *plugins, "--no-header"],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
