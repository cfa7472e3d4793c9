"""The MCP server of `gelgt mcp` (extra ``mcp``): `RunTools` for programs that speak the Model
Context Protocol, over standard input and output.

Nothing is written, and nothing but the protocol goes to standard output. An error is a tool result
that says so, with the code, message and hint that the command line prints.
"""

import json
import logging
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from gelgt import __version__
from gelgt.errors import GelgtError
from gelgt.integrations.extras import require
from gelgt.integrations.held import REFRESH, HeldPredictor
from gelgt.integrations.tools import MAX_ENTITIES, RunTools
from gelgt.runs.folder import load_run
from gelgt.sources.cache import cache_root

EXTRA = "mcp"
MAX_CHARACTERS = 200_000  # of an answer
logger = logging.getLogger(__name__)

Key = int | str | dict[str, Any]
RunName = Annotated[str | None, Field(description="Name of a run; not needed if there is one.")]
At = Annotated[
    str | None,
    Field(
        description="Time of the prediction, ISO 8601 in UTC; only rows before it are seen. By "
        "default now, or just after the newest row."
    ),
]
Entities = Annotated[
    list[Key] | None,
    Field(
        description=f"Keys of the entity table, at most {MAX_ENTITIES}; objects by column where a "
        "key has several parts. Without them: the highest or lowest of all eligible entities."
    ),
]


def make_server(
    runs: Mapping[str, str | Path],
    *,
    source: Any = None,
    refresh: float = REFRESH,
    device: str = "auto",
) -> Any:
    """An MCP server over some run folders.

    Args:
        runs: Run folders by name.
        source: As in `Predictor`, for all of them.
        refresh: Seconds after which a source is looked at again.
        device: As in `Predictor`.

    Returns:
        The `MCPServer` of the package ``mcp``; its ``run()`` serves standard input and output.

    Raises:
        GelgtError: ``missing_extra``; a folder is no run.
    """
    package = require("mcp.server.mcpserver", EXTRA)
    held = {
        name: HeldPredictor(load_run(folder), source, device=device, refresh=refresh)
        for name, folder in runs.items()
    }
    server = package.MCPServer(
        "gelgt", version=__version__, instructions=_instructions(held), log_level="WARNING"
    )
    annotations = require("mcp_types", EXTRA).ToolAnnotations(
        read_only_hint=True, idempotent_hint=True, open_world_hint=False
    )
    for tool in _tools(RunTools(held)):
        words = " ".join(str(tool.__doc__).split())
        server.add_tool(tool, description=words, annotations=annotations, structured_output=False)
    return server


def _instructions(held: Mapping[str, HeldPredictor]) -> str:
    tasks = {name: each.run.record.task for name, each in held.items()}
    lines = [f"- {name}: {task.sentence or task.name}" for name, task in tasks.items()]
    return "\n".join(
        (
            "Predictions on a relational database, read-only. Ask `task` what a run predicts and "
            "how good it is beside baselines before you rely on it. Runs:",
            *lines,
        )
    )


def _tools(tools: RunTools) -> list[Callable[..., Any]]:
    """The functions whose names, signatures and docstrings the protocol shows."""
    hidden = _places(tools)

    def inspect(run: RunName = None) -> Any:
        """Tables, keys, time columns and column kinds of the database that a run reads."""
        return _answer(lambda: tools.inspect(run), hidden)

    def task(run: RunName = None) -> Any:
        """What is predicted for which table, in which regime, and the scores of the model beside
        those of its parts and of baselines. Without a run: of all runs."""
        return _answer(lambda: tools.task(run), hidden)

    def predict(
        run: RunName = None,
        entities: Entities = None,
        at: At = None,
        k: Annotated[int | None, Field(description="Recommendations for each entity.")] = None,
        interval: Annotated[
            float | None, Field(description="Level of prediction intervals of numbers, as 0.9.")
        ] = None,
        order: Annotated[
            Literal["highest", "lowest"], Field(description="Without entities: which come first.")
        ] = "highest",
        limit: Annotated[int, Field(description="Without entities: how many.")] = 20,
    ) -> Any:
        """Predict for entities at a time, from the rows before it."""
        return _answer(
            lambda: tools.predict(
                run, entities, at, k=k, interval=interval, order=order, limit=limit
            ),
            hidden,
        )

    def explain(
        entity: Annotated[Key, Field(description="A key of the entity table.")],
        run: RunName = None,
        at: At = None,
    ) -> Any:
        """Why a prediction is what it is: which rows, columns and ages raise or lower it, measured
        by deletion, and whether that explanation holds. Takes seconds."""
        return _answer(lambda: tools.explain(run, entity, at), hidden)

    return [inspect, task, predict, explain]


def _answer(ask: Callable[[], Any], hidden: Mapping[str, str]) -> Any:
    """The result of a tool, or of its failure."""
    try:
        content = _plain(ask())
        content |= {"notices": [_shown(text, hidden) for text in content.get("notices", ())]}
        if (size := len(_text(content))) > MAX_CHARACTERS:
            raise GelgtError(
                "too_large",
                f"The answer has {size:,} characters; {MAX_CHARACTERS:,} are the most.",
                hint="Ask for less at a time.",
            )
        return _result(content, is_error=False)
    except GelgtError as error:
        failure = error
    except Exception as error:
        logger.exception("a tool failed")
        failure = GelgtError(
            "bug",
            f"A bug in gelgt: {type(error).__name__}.",
            hint="The server's standard error has the details.",
        )
    told = {name: _shown(text, hidden) for name, text in failure.to_dict().items()}
    return _result({"error": told}, is_error=True)


def _plain(content: Any) -> Any:
    """The same in the types of JSON, which has no NaN."""
    return json.loads(json.dumps(content, default=str), parse_constant=lambda name: None)


def _text(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False)


def _result(content: dict[str, Any], *, is_error: bool) -> Any:
    types = require("mcp_types", EXTRA)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=_text(content))],
        structured_content=content,
        is_error=is_error,
    )


def _places(tools: RunTools) -> dict[str, str]:
    """Folders of this machine that a message may name, and what is shown instead; the longest
    first."""
    folders: dict[Path, str] = {cache_root(): "cache", Path(tempfile.gettempdir()): "…"}
    for name, held in tools.held.items():
        folders[held.run.folder.absolute()] = name
        for source in (held.source, held.run.record.data.source):
            if isinstance(source, (str, Path)) and "/" in str(source):
                path = Path("/" + str(source).rpartition("://")[2].lstrip("/"))
                folders |= {path: path.name, path.parent: "…"}
    folders |= {Path.cwd(): ".", Path.home(): "~"}
    texts = {str(folder): shown for folder, shown in folders.items() if len(folder.parts) > 1}
    return dict(sorted(texts.items(), key=lambda item: -len(item[0])))


def _shown(text: str, hidden: Mapping[str, str]) -> str:
    for place, shown in hidden.items():
        text = text.replace(place, shown)
    return text
