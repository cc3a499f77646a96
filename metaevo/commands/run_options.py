"""What commands share: flags, checks of settings before JAX is imported, several processes."""

import argparse
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from metaevo.config import merge
from metaevo.config.command_line import Defaults, Parser, parse_command_line
from metaevo.config.plain import PlainDict, names_in
from metaevo.config.references import check_name
from metaevo.config.sources import fields_of, source, stub
from metaevo.runs.run_directory import RunDirectory, run_argument

S = TypeVar("S")
TRAINING = "metaevo.training.settings:TrainSettings"
EVOLUTION = "metaevo.studies.settings:EvolveSettings"
PROBLEM = "metaevo.studies.problems:ProblemSettings"
SWEEP = "metaevo.tuning.config:SweepSettings"
LEARNERS = "metaevo.parts.learners:LEARNERS"
PARTS = "metaevo.parts.learners:PARTS"


def computing(command: str) -> Parser:
    """Return the parser of a command that trains agents."""
    parser = Parser(command)
    text = "check everything and print what would be computed; nothing is written"
    parser.add_argument("--dry-run", action="store_true", help=text)
    text = "code of your own that a run directory names, and that may run"
    parser.add_argument("--code", action="append", default=[], metavar="FILE", help=text)
    return parser


def run_parser(command: str) -> Parser:
    """Return the parser of a command with a run directory."""
    parser = computing(command)
    for flag, options in {
        "--run-dir": {
            "type": run_argument, "metavar": "DIR",
            "help": "default: runs/<experiment>/<timestamp>; latest is the newest run",
        },
        "--resume": {"action": "store_true", "help": "continue the run in --run-dir"},
        "--quick": {"action": "store_true", "help": "tiny sizes, to see how it all works"},
        "--wandb": {
            "nargs": "?", "const": "offline", "dest": "run.wandb", "metavar": "MODE",
            "help": "log the run to Weights & Biases: offline (default), online, disabled",
        },
        "--mlflow": {
            "nargs": "?", "const": "local", "dest": "run.mlflow", "metavar": "URI",
            "help": "log the run to MLflow; without a URI to the database ./mlruns.db",
        },
    }.items():  # fmt: skip
        parser.add_argument(flag, **options)  # type: ignore[arg-type]
    return parser


def parse_run(
    parser: Parser,
    argv: Sequence[str],
    make_class: Callable[[PlainDict], type[S]],
    new: Defaults = lambda args, overrides: {},
    component: str | None = None,
) -> tuple[S, argparse.Namespace]:
    """Parse a command line into the settings of a run, and its flags.

    Args:
        parser: made by `run_parser`.
        argv: arguments without the program's name.
        make_class: chooses the dataclass from the raw settings.
        new: settings of a new run without `--config`, from the flags and the other settings.
        component: the part that is evolved if the settings name none.
    """

    def defaults(args: argparse.Namespace, overrides: PlainDict) -> PlainDict:
        known = _settings_to_resume if args.resume else new
        return known(args, overrides)

    return parse_early(parser, argv, make_class, defaults, _quickened, component)


def _quickened(settings: PlainDict) -> PlainDict:
    """Return the settings of a quick look."""
    from metaevo.runs.quick import quickened

    return quickened(settings)


def _settings_to_resume(args: argparse.Namespace, overrides: PlainDict) -> PlainDict:
    """Return the settings of the run that the command line continues.

    Raises:
        ConfigError: if it names no run, or not all code of the run.
    """
    run = RunDirectory.open(args.run_dir)
    content = run.read_config()
    settings = content["config"]
    if args.code or names_in(overrides):
        start_jax()  # importing an environment starts its backend
    if args.code or names_in(merge(settings, overrides)):
        from metaevo.config import code

        code.admit(run.path, merge(settings, overrides), content["resolved"], overrides, args.code)
    return settings


def parse_early(
    parser: Parser,
    argv: Sequence[str],
    make_class: Callable[[PlainDict], type[S]],
    defaults: Defaults,
    quick: Callable[[PlainDict], PlainDict] | None = None,
    component: str | None = None,
) -> tuple[S, argparse.Namespace]:
    """`parse_command_line` with a first check, before JAX is set up and `make_class` imports it."""

    def made(raw: PlainDict) -> type[S]:
        start_jax()
        return make_class(raw)

    def early(raw: PlainDict) -> Any:
        try:
            return early_class(parser.prog.split()[-1], raw, component)
        except (KeyError, OSError):  # an installation without source code
            return Any

    return parse_command_line(parser, argv, made, defaults, quick, early)


def early_class(command: str, raw: PlainDict, component: str | None = None) -> Any:
    """Return the class of unvalidated settings as their source code has it.

    Args:
        command: train, sweep, or a command about an evolution.
        raw: the settings, of which `problem`, `evolve` and `learner` are read.
        component: the part that is evolved if the settings name none.

    Raises:
        ConfigError: for an unknown learner or part.
    """
    learners, parts = (
        source(place.partition(":")[0])[place.partition(":")[2]] for place in (LEARNERS, PARTS)
    )
    evolve, learner = raw.get("evolve", component), raw.get("learner", "ppo")
    if isinstance(learner, str):
        check_name("learner", learner, learners)
    if isinstance(evolve, str):
        check_name("evolve", evolve, parts)
    place = PROBLEM if "problem" in raw else EVOLUTION
    if command == "train" or (command == "sweep" and not {"problem", "evolve"} & raw.keys()):
        place = TRAINING
    own = fields_of(stub(place))
    kinds: PlainDict = fields_of(stub(SWEEP)) | own if command == "sweep" else {}
    if place == EVOLUTION and isinstance(evolve, str) and evolve in parts:
        kinds["component"] = stub(parts[evolve])
    elif place == EVOLUTION:  # a part of the user's may have a strategy of its own
        kinds["strategy"] = Any
    if place != PROBLEM and isinstance(learner, str) and learner in learners:
        module = learners[learner].partition(":")[0]
        kinds |= {"train": stub(f"{module}:Config"), "hyperparams": stub(f"{module}:Hyperparams")}
        kinds |= dict.fromkeys(slots_of(module), str)
    else:  # its own settings are known to its class
        kinds |= dict.fromkeys(raw.keys() - own.keys() - kinds.keys(), Any)
    return stub(place, **kinds)


def slots_of(module: str) -> list[str]:
    """Return the names of the slots of a learner of purerl, from its source code."""
    return [name.lower() for name in re.findall(r"\.([A-Z_]+)\b", source(module).text("SLOTS"))]


_has_started = False


def start_jax(several: PlainDict | None = None) -> None:
    """Set up the devices, once, before code of the user's starts JAX's backend.

    `several` are arguments of `jax.distributed.initialize`, to connect this process with others.
    """
    global _has_started
    if _has_started:
        return
    if sys.stderr.isatty():  # it takes seconds
        print("importing JAX", file=sys.stderr, flush=True)
    from metaevo.evolution import devices

    devices.setup()
    _has_started = True
    if several is not None:
        from metaevo.evolution import hosts

        hosts.connect(**several)
        if not devices.is_first():
            warnings.simplefilter("ignore")  # the first process shows them
    devices.check()


# --- Several processes ----------------------------------------------------------------------------

FLAGS: dict[str, tuple[Any, str, str]] = {
    "coordinator": (str, "HOST:PORT", "where the first process listens"),
    "processes": (int, "N", "how many there are; 1 keeps the tasks of a cluster apart"),
    "process": (int, "I", "which one this is, from 0"),
}
"""Type, value and meaning of the flags that describe the processes."""
VARIABLES = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"
"""Environment variables that stand for the flags."""


def add_process_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of several processes to a script's parser."""
    group = parser.add_argument_group("several processes (docs/how-to/scaling.md)")
    for (name, (kind, value, text)), variable in zip(FLAGS.items(), VARIABLES, strict=True):
        given = os.environ.get(variable) or None
        group.add_argument(f"--{name}", type=kind, default=given, metavar=value, help=text)
    text = "let JAX find all that out; SLURM and Open MPI need no flag"
    group.add_argument("--distributed", action="store_true", help=text)
