"""The kernels without a GPU: their tests through Triton's interpreter, in one process."""

from pathlib import Path

import pytest
from interpreter import run_interpreted

HERE = Path(__file__).parent
FILES = [
    HERE / name
    for name in (
        "test_adam.py",
        "test_fused_rows.py",
        "test_groups.py",
        "test_kernel_blocks.py",
        "test_kernels.py",
        "test_linear.py",
    )
]


def test_every_path_through_the_kernels() -> None:
    run_interpreted(FILES, "not slow and not gpu")


@pytest.mark.slow
def test_every_other_case() -> None:
    run_interpreted(FILES, "slow and not gpu")


def test_no_file_of_kernels_is_left_out() -> None:
    using = [
        path for path in sorted(HERE.glob("test_*.py")) if "\n@on_device\n" in path.read_text()
    ]
    assert using == FILES
