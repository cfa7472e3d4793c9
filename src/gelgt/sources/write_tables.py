"""Writes the tables of an import, in this process or by several at once.

A table waits for the tables that it refers to: it joins their row numbers.
"""

from collections.abc import Mapping

from gelgt.sources.order import TableWriter, Writing, Written
from gelgt.sources.probe import StagedProbe
from gelgt.sources.processes import Processes


def write_tables(
    writing: Writing, probe: StagedProbe, processes: Processes
) -> Mapping[str, Written]:
    """Write all tables to the folder of an import; each with its kinds and findings."""
    (writing.folder / "db").mkdir()
    (writing.folder / "gelgt" / "keys").mkdir(parents=True)
    writer = TableWriter(writing, probe)
    if len(writing.tables) > 1:
        # staged rows are about twice as large as where they come from
        processes.start(sum(table.path.stat().st_size for table in probe.tables.values()) // 2)
    if processes.are_ready():
        written = _by_processes(writer, writing, processes)
    else:
        for name in writer.early:
            writer.write_keys(name)
        written = {name: writer.write_rows(name) for name in writer.ordered}
    return {name: written[name] for name in writing.tables}


def _by_processes(
    writer: TableWriter, writing: Writing, processes: Processes
) -> Mapping[str, Written]:
    processes.prepare(writing, writer.probe.tables)
    processes.run({name: ("write_keys", name) for name in writer.early})
    parents = {
        name: {fk.table for fk in table.foreign_keys}.difference(writer.early)
        for name, table in writing.tables.items()
    }
    rows = {name: table.rows for name, table in writer.probe.tables.items()}
    largest = sorted(writer.ordered, key=lambda name: -rows[name])
    return processes.run({name: ("write_rows", name) for name in largest}, parents)
