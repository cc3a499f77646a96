"""For people who want Weights & Biases to choose the trials: its definition, and one trial."""

import time
from pathlib import Path

import numpy as np

from metaevo.config import ConfigError, changed_keys, dump_yaml, from_dict, load_yaml, to_dict
from metaevo.evolution import devices
from metaevo.evolution.seeding import Purpose
from metaevo.runs.files import write_json_atomic
from metaevo.runs.lifecycle import start_tracker
from metaevo.runs.run_directory import RunDirectory
from metaevo.sweep.evolutions import Evolutions
from metaevo.sweep.plan import trials_of
from metaevo.sweep.settings import SearchSettings, SweepSettings
from metaevo.sweep.trainings import Trainings
from metaevo.sweep.trials import plain_scores
from metaevo.tuning.objective import objective
from metaevo.tuning.space import Space, dotted_space, make_space

METHODS = {"grid": "grid", "random": "random", "sobol": "random", "tpe": "bayes", "cma_es": "bayes"}
"""Ours, and the nearest of wandb's."""


def print_definition(settings: SearchSettings, config: Path | None) -> int:
    """Print a sweep definition whose agents call `metaevo sweep --single`, online.

    Raises:
        ConfigError: for a space that cannot be searched, or without `--config`.
    """
    if config is None:
        raise ConfigError("--print-wandb-sweep needs --config FILE, which the agents read too")
    space = make_space(dotted_space(settings.space), type(settings), to_dict(settings))
    in_file = to_dict(from_dict(type(settings), load_yaml(config)))
    changed = [  # on the command line: agents have to be told, too
        f"--{key}={dump_yaml([new], flow=True).strip()[1:-1]}"
        for key, (_, new) in changed_keys(in_file, to_dict(settings)).items()
        if not key.startswith(("space", "run.wandb"))
    ]
    definition = {
        "program": "metaevo",
        "method": METHODS[settings.sweep.sampler],
        "metric": {"name": "trial/value", "goal": "maximize"},
        "run_cap": settings.sweep.trials,
        "parameters": space.to_wandb(),
        "command": [
            "${env}", "${interpreter}", "-m", "${program}", "sweep",
            "--single", "--wandb", "online", "--config", str(config), *changed, "${args}",
        ],
    }  # fmt: skip
    print(dump_yaml(definition), end="")
    return 0


def run_single(settings: SearchSettings, run_dir: Path | None) -> int:
    """Train one trial with the settings as they are; its objective is `trial/value` in wandb.

    Raises:
        ConfigError: for anything wrong in the settings, before compilation.
    """
    fixed = Space({}, {})
    everything = {**to_dict(settings), "space": {}}
    settings = from_dict(type(settings), everything)
    trials = trials_of(settings, fixed)
    trials.check(settings)
    run = RunDirectory.create(run_dir, "sweep_trial")
    started = time.monotonic()
    run.write_config(to_dict(settings), {}, devices.describe())
    tracker = start_tracker(settings, run, "trial")
    try:
        seeds = settings.sweep.seeds
        frames = trials.frames(settings) * seeds
        if isinstance(trials, Evolutions):
            scores = trials.scores(trials.settings, Purpose.TUNING, seeds, lambda frames: None)
        else:
            assert isinstance(trials, Trainings)
            assert isinstance(settings, SweepSettings)
            agents = trials.train([settings], trials.keys, lambda frames: None)
            scores = trials.population(settings).scores(agents)[0]
        value = objective(np.asarray(scores), settings.sweep)
        record = {"kind": "trial", "trial": 0, "value": value, "scores": plain_scores(scores)}
        record |= {
            "frames": frames,
            "seconds": round(time.monotonic() - started, 3),
        }
        run.append_metrics(record)
        tracker.log(record)
        write_json_atomic(run.evaluation_path, record)
        print(f"value: {value}")
    finally:
        tracker.finish()
    return 0
