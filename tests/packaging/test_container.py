"""The files of the container: what can be checked without a Docker engine.

The Dockerfile names files that exist and ends as an ordinary user; the commands of the compose file
are commands of gelgt; the entry point hands secrets and signals on, as a user without a home.
"""

import fnmatch
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from gelgt.cli.app import app

ROOT = Path(__file__).parents[2]
ENTRY, HEALTH = ROOT / "container" / "entrypoint.py", ROOT / "container" / "health.py"
NOBODY = 65534


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile with their arguments, lines joined."""
    text = "\n".join(
        line
        for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
        if not line.lstrip().startswith("#")
    )
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def of(word: str) -> list[str]:
    return [rest for name, rest in instructions() if name == word]


def compose() -> dict[str, Any]:
    content = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def ours() -> dict[str, dict[str, Any]]:
    """The services that run gelgt."""
    return {name: s for name, s in compose()["services"].items() if s["image"] == "gelgt"}


def check_command(words: list[str]) -> None:
    """Fails where a command or option is not one of gelgt's, or lacks its value."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    name, rest = words[0], list(words[1:])
    if name == "serve" and name not in commands:
        pytest.skip("this gelgt has no command serve")
    options = {option: p for p in commands[name].params for option in p.opts}
    arguments = [p for p in commands[name].params if p.param_type_name == "argument"]
    values = []
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            assert word in options, f"gelgt {name} has no option {word}"
            if not options[word].is_flag:
                assert rest.pop(0)
        else:
            values.append(word)
    assert len(values) == len(arguments)


def test_what_is_copied_exists_and_is_sent() -> None:
    """Also by .dockerignore, which lets through what it names and nothing else."""
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    sent = [line[1:] for line in ignored if line.startswith("!")]
    assert all((ROOT / name).exists() for name in sent)
    copied = [rest.split()[:-1] for rest in of("COPY") if not rest.startswith("--from")]
    for source in (source for sources in copied for source in sources):
        assert (ROOT / source).exists(), source
        assert any(fnmatch.fnmatch(source.split("/")[0], name) for name in sent), source
    for secret in (".env", "secrets/token", "runs/churn/model.safetensors", ".git/config"):
        assert not any(fnmatch.fnmatch(secret.split("/")[0], name) for name in sent)


def test_what_the_package_is_built_from_is_copied() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    copied = " ".join(of("COPY"))
    named = re.findall(r'^(?:readme = |license-files = \[)"([^"]+)"', project, re.MULTILINE)
    assert len(named) == 2
    assert all(name in copied for name in named)


def test_it_runs_as_an_ordinary_user() -> None:
    last = [word for word, _ in instructions()].index("ENTRYPOINT")
    before = [rest for word, rest in instructions()[:last] if word == "USER"]
    user, group = map(int, before[-1].split(":"))
    assert user > 1000
    assert group > 1000
    assert all(f"{number}" in " ".join(of("RUN")) for number in (user, group))


@pytest.mark.parametrize("word", ["ENTRYPOINT", "CMD"])
def test_no_shell_stands_between_signals_and_gelgt(word: str) -> None:
    (arguments,) = of(word)
    assert all(isinstance(each, str) for each in json.loads(arguments))
    (health,) = of("HEALTHCHECK")
    assert json.loads(health.partition("CMD ")[2])[:2] == ["python", "/opt/gelgt/lib/health.py"]


def test_the_command_of_the_image_is_one_of_gelgt() -> None:
    check_command(json.loads(of("CMD")[0]))


def test_the_image_holds_no_secret_and_no_moving_version() -> None:
    for word in ("ENV", "ARG"):
        assert not re.search(r"TOKEN|PASSW|SECRET", " ".join(of(word)))
    assert not any(rest.split()[0].endswith(":latest") for rest in of("FROM"))
    assert not of("ADD")


def test_what_is_written_lies_in_the_volume() -> None:
    (volume,) = of("VOLUME")
    values = dict(re.findall(r"(\w+)=(\S+)", " ".join(of("ENV"))))
    for name in ("HOME", "GELGT_CACHE", "NUMBA_CACHE_DIR"):
        assert values[name].startswith(volume)


@pytest.mark.parametrize("name", sorted(ours()))
def test_the_commands_of_the_compose_file(name: str) -> None:
    check_command([str(word) for word in ours()[name]["command"]])


def test_the_compose_file_keeps_secrets_out_of_itself() -> None:
    content = compose()
    for name, secret in content["secrets"].items():
        assert set(secret) == {"environment"}, name
    for service in content["services"].values():
        for variable, value in service["environment"].items():
            if re.search(r"TOKEN|PASSW", variable):
                assert variable.endswith("_FILE")
                assert value.removeprefix("/run/secrets/") in service["secrets"]
    sources = [word for s in ours().values() for word in s["command"] if "postgresql://" in word]
    assert len(sources) == 2
    assert not any(re.search(r"//[^/@]*:[^/@]*@", source) for source in sources)


def test_the_services_are_locked_down() -> None:
    for service in ours().values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert any(volume.endswith(f":{of('VOLUME')[0]}") for volume in service["volumes"])
    assert all(port.startswith("127.0.0.1:") for port in ours()["gelgt"]["ports"])
    assert "./runs:/runs:ro" in ours()["gelgt"]["volumes"]
    assert ours()["gelgt"]["ports"][0].split(":")[-1] == of("EXPOSE")[0]


# The entry point, with a stand-in for gelgt that tells what it was given.
STAND_IN = """#!{python}
import json, os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"ended"), os._exit(0)))
print(json.dumps({{"arguments": sys.argv[1:], "environment": dict(os.environ), "pid": os.getpid(),
                   "uid": os.getuid()}}), flush=True)
if "wait" in sys.argv:
    signal.pause()
"""


def python_of_everyone() -> str:
    """A Python that any user may run."""
    path = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    return path or pytest.skip("needs a python3 that other users may run")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that other users may read and not write, with a gelgt that tells what it sees; not
    among pytest's own, whose parents are closed to others."""
    with tempfile.TemporaryDirectory(prefix="gelgt-container-") as home:
        folder = Path(home)
        folder.chmod(0o755)
        for source in (ENTRY, HEALTH):
            shutil.copy(source, folder)
        script = folder / "gelgt"
        script.write_text(STAND_IN.format(python=python_of_everyone()))
        script.chmod(0o755)
        (folder / "token").write_text("s3cr3t-token\n")
        (folder / "empty").write_text("\n")
        yield folder


def entry(place: Path, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
    """The entry point as a user without a home."""
    return subprocess.Popen(
        [python_of_everyone(), "-B", str(place / "entrypoint.py"), *arguments],
        cwd=place,
        env={"PATH": f"{place}:/usr/bin:/bin", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **({"user": NOBODY, "group": NOBODY} if os.geteuid() == 0 else {}),
    )


def test_secrets_come_from_files(place: Path) -> None:
    process = entry(
        place, "serve", "/runs/a b", GELGT_TOKEN_FILE=str(place / "token"), PGPASSWORD="own"
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    seen = json.loads(out)
    assert seen["arguments"] == ["serve", "/runs/a b"]
    assert seen["environment"]["GELGT_TOKEN"] == "s3cr3t-token"
    assert seen["environment"]["PGPASSWORD"] == "own"
    assert "GELGT_TOKEN_FILE" not in seen["environment"]
    assert seen["uid"] != 0 or os.geteuid() != 0


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_a_secret_that_is_not_there_ends_it(place: Path, name: str) -> None:
    process = entry(place, "serve", PGPASSWORD_FILE=str(place / name))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert f"PGPASSWORD_FILE: {place / name}" in err
    assert "Traceback" not in err


def test_sigterm_reaches_gelgt(place: Path) -> None:
    """The entry point becomes gelgt: the process that is signalled is the one that answers."""
    process = entry(place, "wait")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["pid"] == process.pid
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out.strip()) == (0, "ended")


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (None, 1)])
def test_the_health_check(status: int | None, code: int) -> None:
    asked: list[str] = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status or 500)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    port = server.server_address[1]
    if status is None:
        server.server_close()  # nobody listens
    else:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {**os.environ, "http_proxy": "http://127.0.0.1:9"}  # a proxy that is not there
    done = subprocess.run([sys.executable, str(HEALTH), str(port)], env=environment, check=False)
    assert done.returncode == code
    assert asked == ([] if status is None else ["/v1/health/ready"])
    if status is not None:
        server.shutdown()
        server.server_close()
