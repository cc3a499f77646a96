"""Sweeps controlled by Weights & Biases: the sweep definition, and one trial for its agent."""

import time
from pathlib import Path
from typing import Any

from metaevo.config import ConfigError, changed_keys, dump_yaml, from_dict, load_yaml, to_dict
from metaevo.config.files import write_json_atomic
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.tracking import RunTracker
from metaevo.runs.tracking.destination import destinations
from metaevo.studies.sweeps import objective_of
from metaevo.tuning.config import SearchSettings
from metaevo.tuning.objective import plain_scores, statistic
from metaevo.tuning.space import Space, dotted_space, make_space

METHODS = {"grid": "grid", "random": "random", "sobol": "random", "tpe": "bayes", "cma_es": "bayes"}
"""Samplers and the closest wandb methods."""


def print_definition(settings: SearchSettings, config: Path | None) -> int:
    """Print a sweep definition with agents that call `metaevo sweep --single`, online.

    Raises:
        ConfigError: if the space cannot be searched, or `--config` is missing.
    """
    if config is None:
        raise ConfigError("--print-wandb-sweep needs --config FILE, which the agents read too")
    space = make_space(dotted_space(settings.space), type(settings), to_dict(settings))
    in_file = to_dict(from_dict(type(settings), load_yaml(config)))
    changed = [  # on the command line, which agents have to repeat
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
        ConfigError: before compilation, if the settings are invalid.
    """
    fixed = Space({}, {})
    everything = {**to_dict(settings), "space": {}}
    settings = from_dict(type(settings), everything)
    trials: Any = objective_of(settings, fixed)
    trials.check(settings)
    run = RunDirectory.create(run_dir, "sweep_trial")
    started = time.monotonic()
    run.write_config(to_dict(settings), {})
    to = destinations(to_dict(settings.run))
    tracker = RunTracker(run, to, job_type="trial", wait=settings.run.track_wait)
    try:
        frames = trials.seed_frames(settings) * settings.sweep.seeds
        scores = trials.single(lambda frames: None)
        value = statistic(scores, settings.sweep)
        record = {"kind": "trial", "trial": 0, "value": value, "scores": plain_scores(scores)}
        record |= {
            "frames": frames,
            "seconds": round(time.monotonic() - started, 3),
        }
        run.append_metrics(record)
        write_json_atomic(run.evaluation_path, record)
        print(f"value: {value}")
    finally:
        tracker.finish()
    return 0
