"""A password in an address is found in no file, log or message that gelgt writes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import gelgt
from gelgt.demo import Shop
from gelgt.sources.address import parse_url, safe_address, scrub
from gelgt.sources.cache import cache_root
from gelgt.testing import to_sql


def forms(password: str) -> list[bytes]:
    return [
        form.encode() for form in (password, quote(password, safe=""), json.dumps(password)[1:-1])
    ]


def assert_clean(text: str, password: str) -> None:
    for form in forms(password):
        assert form.decode() not in text


@pytest.mark.postgres
def test_nothing_on_disk_or_screen_holds_the_password(
    small_shop: Shop, postgres: Any, tmp_path: Path
) -> None:
    to_sql(small_shop, postgres.url, replace=True)
    gelgt.open(postgres.url).features()
    out = tmp_path / "project"
    for arguments in (
        ["inspect", postgres.url],
        ["inspect", postgres.url, "--json"],
        ["import", postgres.url, str(out)],
    ):
        script = [sys.executable, "-c", "from gelgt.cli import main; main()", *arguments]
        result = subprocess.run(
            script,
            capture_output=True,
            text=True,
            env={**os.environ, "GELGT_CACHE": str(cache_root())},
        )
        assert result.returncode == 0, result.stderr
        assert_clean(result.stdout + result.stderr, postgres.password)
    files = [p for root in (out, cache_root()) for p in root.rglob("*") if p.is_file()]
    assert any(p.name == "manifest.yaml" for p in files)
    for path in files:
        content = path.read_bytes()
        assert not any(form in content for form in forms(postgres.password)), path


@pytest.mark.postgres
@pytest.mark.parametrize("change", ["password", "database", "port", "user"])
def test_errors_do_not_repeat_the_password(postgres: Any, change: str) -> None:
    url = parse_url(postgres.url)
    wrong: dict[str, Any] = {
        "password": "s3cr3t/wrong",
        "database": "nowhere",
        "port": 1,
        "user": "nobody",
    }
    changed = (
        url._replace(password=wrong["password"])
        if change == "password"
        else url.set(**{change if change != "user" else "username": wrong[change]})
    )
    with pytest.raises(gelgt.GelgtError) as caught:
        gelgt.open(changed.render_as_string(hide_password=False))
    assert caught.value.code == "cannot_open"
    assert_clean(str(caught.value), str(changed.password))
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__, "a traceback would show the driver's own message"


def test_an_unreadable_address_is_not_repeated() -> None:
    with pytest.raises(gelgt.GelgtError) as caught:
        gelgt.open("postgresql://me:hunter2@[bad")
    assert "hunter2" not in str(caught.value)


def test_addresses_are_shown_without_secrets() -> None:
    url = parse_url(
        "postgresql://me:hunter2@host:5433/db?sslmode=require&sslpassword=geheim&password=hunter2"
    )
    shown = safe_address(url)
    assert "hunter2" not in shown
    assert "geheim" not in shown
    assert shown.startswith("postgresql://me@host:5433/db")
    assert "sslmode=require" in shown


def test_drivers_messages_are_scrubbed() -> None:
    url = parse_url("mysql://me:a%2Fb%40c@host/db")
    assert (
        scrub("could not log in with a/b@c (a%2Fb%40c)", url) == "could not log in with *** (***)"
    )
