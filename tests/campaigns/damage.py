"""Ways to damage a file of a folder; each says in a word what it did."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

Random = np.random.Generator
ODD: list[Any] = [
    None, True, -1, 0, 2, 10**30, 0.5, float("nan"), float("inf"), [], {}, [1], [[]], {"a": 1},
    "", "x", "é", "../../outside/secret.parquet", "/etc/passwd", "..", ".", "~", "\x00", "a" * 5000,
    "2024-01-01", "9999-12-31",
]  # fmt: skip


def flip(path: Path, random: Random, folder: Path) -> str:
    content = bytearray(path.read_bytes())
    for _ in range(int(random.integers(1, 9))):
        if content:
            content[random.integers(len(content))] ^= 1 << int(random.integers(8))
    path.write_bytes(bytes(content))
    return "flipped"


def cut(path: Path, random: Random, folder: Path) -> str:
    content = path.read_bytes()
    path.write_bytes(content[: random.integers(len(content) + 1)])
    return "cut"


def empty(path: Path, random: Random, folder: Path) -> str:
    path.write_bytes(b"")
    return "emptied"


def garbage(path: Path, random: Random, folder: Path) -> str:
    """A run of random bytes or of zeros, as a lost sector leaves them."""
    content = bytearray(path.read_bytes())
    start = int(random.integers(len(content) + 1))
    stop = min(len(content), start + int(random.integers(1, 600)))
    noise = random.bytes(stop - start) if random.random() < 0.5 else bytes(stop - start)
    content[start:stop] = noise
    path.write_bytes(bytes(content))
    return "garbled"


def longer(path: Path, random: Random, folder: Path) -> str:
    path.write_bytes(path.read_bytes() + random.bytes(int(random.integers(1, 100))))
    return "longer"


def remove(path: Path, random: Random, folder: Path) -> str:
    path.unlink()
    return "removed"


def swap(path: Path, random: Random, folder: Path) -> str:
    """The contents of two files for each other; mostly of the same ending."""
    others = [p for p in files_of(folder) if p != path]
    alike = [p for p in others if p.suffix == path.suffix]
    others = alike if alike and random.random() < 0.8 else others
    if others:
        other = others[random.integers(len(others))]
        mine, theirs = path.read_bytes(), other.read_bytes()
        path.write_bytes(theirs)
        other.write_bytes(mine)
    return "swapped"


def folder_instead(path: Path, random: Random, folder: Path) -> str:
    path.unlink()
    path.mkdir()
    return "a folder"


def link_same(path: Path, random: Random, folder: Path) -> str:
    """A link to the same bytes elsewhere."""
    shutil.copy(path, folder.parent / "outside" / "same")
    path.unlink()
    path.symlink_to(folder.parent / "outside" / "same")
    return "a link"


def link_elsewhere(path: Path, random: Random, folder: Path) -> str:
    places = ["../outside/secret.json", str(folder.parent / "outside" / "secret.parquet")]
    places += ["/dev/null", "/nowhere", path.name, "."]
    path.unlink()
    path.symlink_to(places[random.integers(len(places))])
    return "a link elsewhere"


def pipe(path: Path, random: Random, folder: Path) -> str:
    """A pipe that nobody writes to: who opens it waits for ever."""
    path.unlink()
    os.mkfifo(path)
    return "a pipe"


def forbid(path: Path, random: Random, folder: Path) -> str:
    path.chmod(0)
    return "forbidden"


def edit(path: Path, random: Random, folder: Path) -> str:
    """One value of a JSON or YAML file replaced, removed or moved; else bits."""
    is_yaml = path.suffix == ".yaml"
    try:
        text = path.read_text()
        content = yaml.safe_load(text) if is_yaml else json.loads(text)
        assert isinstance(content, dict)
    except (ValueError, AssertionError, yaml.YAMLError):
        return flip(path, random, folder)
    for _ in range(int(random.integers(1, 3))):
        _edit(content, random)
    path.write_text(yaml.safe_dump(content) if is_yaml else json.dumps(content))
    return "edited"


def _edit(content: Any, random: Random) -> None:
    here: Any = content
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        if not keys:
            return
        key = keys[random.integers(len(keys))]
        if isinstance(here[key], (dict, list)) and here[key] and random.random() < 0.85:
            here = here[key]
            continue
        choice = random.random()
        if choice < 0.2:
            del here[key]
        elif choice < 0.3 and isinstance(here, dict):
            here[str(ODD[random.integers(len(ODD))])[:50]] = here.pop(key)
        elif choice < 0.45:
            here[key] = here[keys[random.integers(len(keys))]]
        else:
            here[key] = ODD[random.integers(len(ODD))]
        return


def newer(path: Path, random: Random, folder: Path) -> str:
    """A format number of the future."""
    text = path.read_bytes()
    for now in (b'"format": ', b"format: ", b'"format":', b"manifest_version: "):
        if now in text:
            path.write_bytes(text.replace(now, now + b"9", 1))
            return "newer"
    return edit(path, random, folder)


DAMAGES: list[tuple[Callable[[Path, Random, Path], str], float]] = [
    (flip, 5), (cut, 2), (empty, 0.5), (garbage, 3), (longer, 0.5), (remove, 0.5), (swap, 2),
    (folder_instead, 0.3), (link_same, 0.3), (link_elsewhere, 0.5), (pipe, 0.3), (forbid, 0.3),
    (edit, 5), (newer, 0.5),
]  # fmt: skip
_WEIGHTS = np.array([weight for _, weight in DAMAGES]) / sum(weight for _, weight in DAMAGES)


def files_of(folder: Path) -> list[Path]:
    """The files of a folder, in a fixed order."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def damage(folder: Path, random: Random) -> str:
    """Damage one file of a folder, or now and then two; what was done."""
    words = []
    for _ in range(1 if random.random() < 0.9 else 2):
        if not (files := files_of(folder)):
            break
        # Small files that steer the rest as often as large ones that are many.
        kinds = sorted({path.suffix for path in files})
        kind = kinds[random.integers(len(kinds))]
        chosen = [path for path in files if path.suffix == kind]
        change = DAMAGES[random.choice(len(DAMAGES), p=_WEIGHTS)][0]
        path = chosen[random.integers(len(chosen))]
        words.append(f"{path.relative_to(folder)} {change(path, random, folder)}")
    return ", ".join(words)
