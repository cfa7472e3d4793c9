"""The command of the campaigns; see `campaigns/__init__.py`."""

import argparse
import os
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

NAMES = (
    "files",
    "future",
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
    options = parser.parse_args()
    # Threads that wait by spinning would take each other's cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from campaigns import frame

    if options.case is not None or options.worker is not None:
        campaign: frame.Campaign = import_module(f"campaigns.{options.name}").CAMPAIGN
        cases = options.cases or campaign.long
        if options.worker is not None:
            frame.work(campaign, cases, options.seed, options.out.resolve(), options.worker)
            return 0
        with tempfile.TemporaryDirectory() as folder:
            world = campaign.prepare(Path(folder))
            random = frame.random_of(options.seed, options.case)
            print(campaign.case(world, options.case, random))
        return 0
    names, end = NAMES if options.name == "all" else (options.name,), options.minutes * 60
    end, failed = time.time() + end, 0
    for place, name in enumerate(names):
        share = (end - time.time()) / (len(names) - place)  # what one leaves goes to the others
        cases = options.cases or import_module(f"campaigns.{name}").CAMPAIGN.long
        record = frame.supervise(name, cases, options.seed, options.out.resolve(), share)
        failed += len(record.failed)
        print(f"{name}: {record.cases:,} cases, {record.seconds:,.0f} s, {dict(record.outcomes)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
