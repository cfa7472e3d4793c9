"""The MCP server with the package's own client: over standard input and output for real, and in
memory where many cases are tried."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gelgt import GelgtError
from gelgt.cli.mcp import named_runs
from gelgt.demo import Shop
from gelgt.explain import Explainer
from gelgt.inference import Predictor
from gelgt.integrations import mcp as served
from gelgt.integrations import tools
from gelgt.training import Run

from .conftest import SENTENCES

mcp = pytest.importorskip("mcp", reason="needs the MCP package: pip install 'gelgt[mcp]'")
RunOf = Callable[[str], Run]
Ask = Callable[..., Awaitable[Any]]
PASSWORD = "s3cr3t-p4ss"
COMMAND = ("-c", "from gelgt.cli import main; main()", "mcp")


@pytest.fixture(scope="module")
def runs(run_of: RunOf) -> dict[str, Path]:
    return {name: run_of(name).folder for name in SENTENCES}


def ask(server: Any, tool: str, **arguments: Any) -> tuple[bool, dict[str, Any]]:
    """Whether a tool failed, and what it said; the client is in this process."""

    async def call() -> Any:
        async with mcp.Client(server) as client:
            return await client.call_tool(tool, arguments)

    result = asyncio.run(call())
    content = json.loads(result.content[0].text)
    assert result.structured_content == content
    return bool(result.is_error), content


@pytest.fixture(scope="module")
def server(runs: dict[str, Path]) -> Any:
    return served.make_server(runs, device="cpu")


def test_over_standard_input_and_output(
    runs: dict[str, Path], run_of: RunOf, ids: list[int], tiny_shop: Shop, cache_folder: Path
) -> None:
    """Everything that a chat client does, with the official client and a process of its own."""
    parameters = mcp.StdioServerParameters(
        command=sys.executable,
        args=[*COMMAND, str(runs["churn"]), f"offers={runs['next']}"],
        env={**os.environ, "GELGT_CACHE": str(cache_folder)},
    )

    async def talk() -> dict[str, Any]:
        async with mcp.Client(mcp.stdio_client(parameters)) as client:
            listed = (await client.list_tools()).tools
            at = tiny_shop.test_timestamp
            calls = {
                "task": ("task", {}),
                "inspect": ("inspect", {"run": "churn"}),
                "predict": ("predict", {"run": "churn", "entities": ids[:3], "at": at}),
                "offers": ("predict", {"run": "offers", "entities": ids[:1], "at": at, "k": 2}),
                "explain": ("explain", {"run": "churn", "entity": ids[0], "at": at}),
                "unknown": ("predict", {"run": "churn", "entities": [7], "at": at}),
            }
            answers = {
                name: await client.call_tool(tool, arguments)
                for name, (tool, arguments) in calls.items()
            }
            return {"tools": listed, "instructions": client.instructions, **answers}

    said = asyncio.run(talk())
    assert [tool.name for tool in said["tools"]] == ["inspect", "task", "predict", "explain"]
    assert all(tool.annotations.read_only_hint for tool in said["tools"])
    assert f"offers: {SENTENCES['next']}" in said["instructions"]
    found = {
        name: said[name].structured_content
        for name in ("task", "inspect", "predict", "offers", "explain")
    }
    assert not any(said[name].is_error for name in found)

    record = run_of("churn").record
    facts = found["task"]["runs"]["churn"]
    assert (facts["task"], facts["regime"]) == (SENTENCES["churn"], "seed-time")
    assert facts["metrics"]["test"] == record.metrics["test"]
    assert facts["baselines"] == record.baselines
    orders = found["inspect"]["tables"]["orders"]
    assert orders["primary_key"]["columns"] == ["id"]
    assert orders["foreign_keys"][0]["table"] == "customers"
    assert orders["columns"]["channel"] == "categorical"

    predictor = Predictor(run_of("churn"), None)
    direct = predictor.predict(ids[:3], tiny_shop.test_timestamp).table
    probabilities = [row["probability"] for row in found["predict"]["predictions"]]
    assert probabilities == direct.column("probability").to_pylist()
    assert [row["rank"] for row in found["offers"]["predictions"]] == [1, 2]
    why = Explainer(predictor).explain(ids[0], tiny_shop.test_timestamp)
    assert found["explain"]["prediction"] == why.prediction
    assert found["explain"]["sentences"] == list(why.sentences)
    assert found["explain"]["effects"][0]["effect"] == why.effects[0].effect
    assert said["unknown"].is_error
    assert said["unknown"].structured_content["error"]["code"] == "unknown_keys"


def test_nothing_but_the_protocol_on_standard_output(
    runs: dict[str, Path], cache_folder: Path, ids: list[int]
) -> None:
    """Messages by hand; what libraries print while a tool works must not come between."""
    noisy = (
        "import gelgt.integrations.tools as t, os\n"
        "whole = t.inspect\n"
        "def loud(*given):\n"
        "    print('noise'); os.write(1, b'more noise\\n'); return whole(*given)\n"
        "t.inspect = loud\n"
        "from gelgt.cli import main; main()"
    )
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"},
    }
    messages = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "inspect", "arguments": {}}},
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", noisy, "mcp", str(runs["churn"])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "GELGT_CACHE": str(cache_folder)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for message in messages:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    process.stdin.flush()
    lines = []
    while not lines or lines[-1].get("id") != 2:
        lines.append(json.loads(process.stdout.readline()))  # anything else fails here
    rest, errors = process.communicate(timeout=60)
    assert rest == ""
    assert process.returncode == 0, errors
    assert all(line["jsonrpc"] == "2.0" for line in lines)
    assert "customers" in lines[-1]["result"]["structuredContent"]["tables"]
    assert "noise" in errors


def test_the_highest_and_lowest(server: Any, run_of: RunOf, tiny_shop: Shop) -> None:
    at = tiny_shop.test_timestamp
    for name, column in (("churn", "probability"), ("spend", "prediction")):
        everyone = Predictor(run_of(name), None).predict(at=at).table.column(column).to_pylist()
        for order in ("highest", "lowest"):
            failed, content = ask(server, "predict", run=name, at=at, order=order, limit=4)
            assert not failed
            assert content["eligible"] == len(everyone) > 4
            expected = sorted(everyone, reverse=order == "highest")[:4]
            assert [row[column] for row in content["predictions"]] == expected
    failed, content = ask(server, "predict", run="spend", at=at, limit=2, interval=0.8)
    assert set(content["predictions"][0]) == {"id", "time", "prediction", "lower", "upper"}


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("inspect", {}, "missing_option"),
        ("inspect", {"run": "chrun"}, "unknown_run"),
        ("predict", {"run": "churn", "entities": []}, "no_entities"),
        ("predict", {"run": "churn", "entities": [1] * 201}, "too_many_rows"),
        ("predict", {"run": "next", "entities": [1] * 150}, "too_many_rows"),
        ("predict", {"run": "churn", "at": "soon"}, "bad_time"),
        ("predict", {"run": "churn", "limit": 100_000}, "bad_option"),
        ("predict", {"run": "churn", "k": 3}, "bad_option"),
        ("predict", {"run": "churn", "interval": 0.9}, "no_interval"),
        ("predict", {"run": "next"}, "missing_option"),
        ("explain", {"run": "churn", "entity": "'; DROP TABLE orders; --"}, "unknown_keys"),
        ("explain", {"run": "churn", "entity": "../../etc/passwd"}, "unknown_keys"),
    ],
)
def test_mistakes(server: Any, tool: str, arguments: dict[str, Any], code: str) -> None:
    failed, content = ask(server, tool, **arguments)
    assert failed
    assert content["error"]["code"] == code
    assert content["error"]["hint"]


def test_answers_are_bounded(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "MAX_LISTED", 2)
    monkeypatch.setattr(tools, "MAX_EFFECTS", 1)
    failed, content = ask(server, "inspect", run="churn")
    assert not failed
    assert (len(content["tables"]), content["tables_left_out"]) == (2, 6)
    assert content["tables"]["customers"]["columns_left_out"] == 3
    monkeypatch.setattr(tools, "MAX_RANKED", 3)
    failed, content = ask(server, "predict", run="churn")
    assert content["error"]["code"] == "too_many_rows"
    monkeypatch.setattr(served, "MAX_CHARACTERS", 100)
    failed, content = ask(server, "inspect", run="churn")
    assert failed
    assert content["error"]["code"] == "too_large"


def test_errors_name_no_path_and_no_password(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = tmp_path / "deep" / "gone.db"
    sources = (
        missing,
        f"sqlite:///{missing}",
        f"postgresql://me:{PASSWORD}@127.0.0.1:9/shop",
    )
    for source in sources:
        failed, content = ask(
            served.make_server({"churn": runs["churn"]}, source=str(source)), "inspect"
        )
        assert failed
        assert content["error"]["code"] in ("not_found", "cannot_open")
        text = json.dumps(content)
        assert str(tmp_path) not in text
        assert str(runs["churn"].parent) not in text
        assert PASSWORD not in text

    def broken(*_: Any) -> None:
        raise RuntimeError(f"secret {PASSWORD} in {tmp_path}")

    monkeypatch.setattr(tools.RunTools, "task", broken)
    failed, content = ask(served.make_server(runs), "task")
    assert failed
    assert content["error"]["code"] == "bug"
    assert "RuntimeError" in content["error"]["message"]
    assert PASSWORD not in json.dumps(content)
    assert "Traceback" not in json.dumps(content)


def test_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from gelgt.cli import main

    names = named_runs([str(tmp_path / "churn"), "old=runs/2025/churn"])
    assert names == {"churn": tmp_path / "churn", "old": Path("runs/2025/churn")}
    for arguments, code in (
        ((tmp_path / "nothing",), "no_run"),
        (("runs/churn", "others/churn"), "bad_option"),
        ((tmp_path, "--source-env", "GELGT_NOT_SET"), "bad_option"),
        ((tmp_path, "--source-env", "HOME", "--source", "x.db"), "bad_option"),
    ):
        monkeypatch.setattr(sys, "argv", ["gelgt", "mcp", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        streams = capfd.readouterr()
        assert streams.out == ""
        assert f"error ({code})" in streams.err


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    with pytest.raises(GelgtError) as caught:
        served.make_server({})
    assert (caught.value.code, caught.value.hint) == ("missing_extra", "pip install 'gelgt[mcp]'")
