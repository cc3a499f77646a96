"""Our rules in DiscoGen's benchmark (docs/how-to/discogen.md).

python -m experiments.discogen export zoo:ppo-apa --to exported
python -m experiments.discogen run --rules ppo apa zoo:ppo-apa --steps 1e6 --seeds 4 --rates 3
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.discogen import cells, modules

RULE = "a hand-written function (apa, schedule_free), a run, zoo:NAME, or FILE.py:PART"


def main(argv: Sequence[str]) -> None:
    """Write a rule's modules, or measure rules side by side."""
    parser = argparse.ArgumentParser("python -m experiments.discogen")
    commands = parser.add_subparsers(dest="command", required=True)
    export = commands.add_parser("export", help="write a rule as their modules")
    export.add_argument("reference", metavar="RULE", help=RULE)
    export.add_argument("--modules", nargs="+", choices=[*modules.MODULES], default=())
    export.add_argument("--to", type=Path, required=True, dest="folder", help="a new folder")
    run = commands.add_parser("run", help="measure rules side by side in their harness")
    run.add_argument("--rules", nargs="+", required=True, help=f"{cells.BASELINE}, or {RULE}")
    run.add_argument("--envs", nargs="+", default=cells.ENVIRONMENTS)
    run.add_argument("--seeds", type=int, default=8)
    run.add_argument("--rates", type=int, default=10, help="learning rates from 1e-3 to 1e-2")
    run.add_argument("--steps", type=float, default=1e7)
    run.add_argument("--processes", type=int, default=1, help="cells at a time")
    run.add_argument("--to", type=Path, default=Path("runs/discogen"), help="where to go on")
    for each in (export, run):
        text = "a file of your own that a run names, and that may run"
        each.add_argument("--code", action="append", default=[], metavar="FILE", help=text)
    args = vars(parser.parse_args(argv))
    try:
        if args.pop("command") == "export":
            print(*modules.export(**args), sep="\n")
        else:
            text = cells.table(cells.run(plan := cells.Plan(**args)))
            (plan.to / "table.md").write_text(f"{text}\n")
            print(text)
    except KeyboardInterrupt:
        sys.exit(130)
    except ValueError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main(sys.argv[1:])
