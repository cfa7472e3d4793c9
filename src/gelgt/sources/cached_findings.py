"""The findings of a database, computed once and kept beside its graph in the cache."""

import json
from pathlib import Path

from gelgt.schema.findings import find, ranked, weighed
from gelgt.schema.model import Finding
from gelgt.sources.cache import build_folder
from gelgt.sources.database import Database

FORMAT = 1  # raise it when the same rows give other findings
_FILE = "findings.json"


def findings_of(db: Database) -> list[Finding]:
    """All findings of a database, the gravest first.

    Those of the import are kept with it; what its rows show is computed on first use.
    """

    def build(folder: Path) -> None:
        noticed = {finding.handle for finding in db.import_findings}
        entries = [finding.to_dict() for finding in find(db) if finding.handle not in noticed]
        (folder / _FILE).write_text(json.dumps(entries, ensure_ascii=False), encoding="utf-8")

    folder = build_folder(db.cache_dir / f"findings-v{FORMAT}", build, is_sealed=True)
    entries = json.loads((folder / _FILE).read_text(encoding="utf-8"))
    noticed = [weighed(db, finding) for finding in db.import_findings]
    return ranked([*noticed, *(Finding(**entry) for entry in entries)])
