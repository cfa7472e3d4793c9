"""Prints benchmark results: the machine, the figures, the ratios."""

from typing import Any

from gelgt.cli.output import print_table, say
from gelgt.errors import GelgtError


def parse_sizes(text: str) -> list[int]:
    """'1400000,14e6' → [1400000, 14000000]."""
    try:
        return [int(float(part.replace("_", ""))) for part in text.split(",")]
    except ValueError:
        raise GelgtError(
            "bad_size",
            f"'{text}' is no list of sizes.",
            hint="Write numbers separated by commas, such as 1400000,14000000.",
        ) from None


def print_bench(result: dict[str, Any]) -> None:
    """One line for the machine, a table of results, a line a ratio."""
    on = result["machine"]
    gpu = f"{on['gpu']}, " if "gpu" in on else ""
    say(
        f"{gpu}{on['cpu']}, {on['cores']} cores, {on['memory_gib']} GiB, {on['platform']}, Python "
        f"{on['python']}",
        style="bold",
    )
    say(", ".join(f"{name} {version}" for name, version in on["versions"].items()))
    say("")
    headers = list(dict.fromkeys(key for entry in result["results"] for key in entry))
    rows = [[_cell(entry.get(key, "")) for key in headers] for entry in result["results"]]
    numbers = [
        i
        for i, key in enumerate(headers)
        if any(isinstance(entry.get(key), (int, float)) for entry in result["results"])
    ]
    print_table(headers, rows, right=numbers)
    say("", *(f"{name}: {value:g}" for name, value in result["ratios"].items()))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
