"""A RelBench folder in object storage: copied once to the cache, checked, and opened from there.

    staged/KEY/…             the objects under the prefix; KEY is of their names, sizes, times and
                             versions
    staged/KEY/.staged.json  the size and time of each file when it was written

What lies there is used as long as the files are as they were written and the objects are as they
were copied.
"""

import json
import shutil
from pathlib import Path

from gelgt.errors import SourceError
from gelgt.schema.manifest import MANIFEST
from gelgt.sources.cache import build_folder, cache_root, text_key
from gelgt.sources.object_parquet import readers
from gelgt.sources.objects import versions
from gelgt.storage import Object, Store, changed

_RECORD = ".staged.json"
_ATTEMPTS = 3  # to copy objects that change meanwhile


def staged_folder(address: str) -> Path | None:
    """The local copy of a RelBench folder; None where the prefix holds none.

    Raises:
        SourceError: the objects cannot be read, or change again and again.
    """
    store = Store(address)
    if not store.exists(MANIFEST):
        return None
    for attempt in range(_ATTEMPTS):
        objects = {store.relative(item.path): item for item in store.objects()}
        if not any(name.startswith("db/") and name.endswith(".parquet") for name in objects):
            return None
        try:
            return _staged(store, {n: o for n, o in objects.items() if _is_part(n)})
        except SourceError as error:
            if error.code not in ("source_changed", "not_found") or attempt + 1 == _ATTEMPTS:
                raise
    raise AssertionError  # the last attempt returns or raises


def _is_part(name: str) -> bool:
    """Whether an object belongs to a RelBench folder, and its name to a path below one."""
    words = name.split("/")
    return not any(word in ("", "..") or word.startswith(".") for word in words)


def _staged(store: Store, objects: dict[str, Object]) -> Path:
    tags = versions(store, [item.path for item in objects.values()])
    key = text_key(f"{store} {store.place.server} {sorted(objects.items())} {sorted(tags.items())}")
    target = cache_root() / "staged" / key
    if target.exists() and not _is_whole(target):
        shutil.rmtree(target)

    def build(folder: Path) -> None:
        _copy(store, objects, folder)
        if versions(store, tags) != tags:
            raise changed(str(store))
        (folder / _RECORD).write_text(json.dumps(_sizes(folder)), encoding="utf-8")

    return build_folder(target, build)


def _copy(store: Store, objects: dict[str, Object], folder: Path) -> None:
    for name in objects:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    with readers() as pool:
        copies = [
            pool.submit(store.download, item, folder / name) for name, item in objects.items()
        ]
        for copy in copies:
            copy.result()


def _is_whole(folder: Path) -> bool:
    try:
        written = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        return bool(written == _sizes(folder))
    except (OSError, ValueError):
        return False


def _sizes(folder: Path) -> dict[str, list[int]]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != _RECORD)
    stats = {path.relative_to(folder).as_posix(): path.stat() for path in files}
    return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}
