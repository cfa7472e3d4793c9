"""The command of the campaigns; see `campaigns/__init__.py`."""

import argparse
import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path

NAMES = (
    "files",
    "future",
    "messy",
    "sentences",
    "queries",
    "databases",
    "servers",
    "texts",
    "kill",
    "together",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m campaigns")
    parser.add_argument("name", choices=[*NAMES, "all"])
    parser.add_argument("--cases", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("campaigns-out"))
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--case", type=int, help="run one case here, with its trace")
    parser.add_argument("--worker", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--place", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    # Threads that wait by spinning would take each other's cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from campaigns import frame, lanes

    if options.case is not None or options.worker is not None:
        campaign: frame.Campaign = import_module(f"campaigns.{options.name}").CAMPAIGN
        cases, out = options.cases or campaign.long, options.out.resolve()
        if options.worker is not None:
            lanes.one_core()
            frame.work(campaign, cases, options.seed, out, options.worker, options.place)
            return 0
        with tempfile.TemporaryDirectory() as folder:
            world = campaign.prepare(Path(folder))
            random = frame.random_of(options.seed, options.case)
            print(campaign.case(world, options.case, random))
        return 0
    names = NAMES if options.name == "all" else (options.name,)
    cases = {
        name: options.cases or import_module(f"campaigns.{name}").CAMPAIGN.long for name in names
    }
    records = lanes.run(cases, options.seed, options.out.resolve(), options.minutes * 60)
    for name in names:
        if summary := getattr(import_module(f"campaigns.{name}"), "summary", None):
            summary(options.out)
    return 1 if any(record.failed for record in records) else 0


if __name__ == "__main__":
    sys.exit(main())
