"""What the script leaves when the system refuses: an error of the user's, or a quiet end when
nobody reads on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gelgt.demo import Shop

GELGT = [sys.executable, "-c", "from gelgt.cli import main; main()"]


def test_a_file_that_cannot_be_made_is_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    done = subprocess.run(
        [*GELGT, "demo", "--out", str(tmp_path / "file" / "demo"), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "cannot_use_file"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_reader_that_stops_early_is_no_error(small_shop: Shop, options: list[str]) -> None:
    process = subprocess.Popen(
        [*GELGT, "inspect", str(small_shop.path), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    complaint = process.stderr.read()
    assert process.wait(timeout=60) == 0, complaint
    assert complaint == b""
