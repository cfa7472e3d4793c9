"""Optional packages are asked for when they are used, and named where they are missing."""

import subprocess
import sys

import pytest

from gelgt import GelgtError
from gelgt.integrations.extras import require


def test_a_missing_package_names_its_extra() -> None:
    with pytest.raises(GelgtError) as caught:
        require("no_such_package.part", "serve")
    assert caught.value.code == "missing_extra"
    assert "'no_such_package'" in caught.value.message
    assert caught.value.hint == "pip install 'gelgt[serve]'"


def test_nothing_optional_is_imported_before_it_is_used() -> None:
    code = (
        "import sys; sys.modules.update(mlflow=None, mcp=None, mcp_types=None)\n"
        "import gelgt.cli.app\n"
        "assert not {'torch', 'sklearn'} & set(sys.modules)\n"
        "import gelgt.integrations.mlflow, gelgt.integrations.mcp, gelgt.integrations.sklearn"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
