"""Sweeps controlled by Weights & Biases: the sweep definition, and one trial for its agent."""

from dataclasses import replace
from pathlib import Path

from metaevo.config import ConfigError, changed_keys, dump_yaml, from_dict, load_yaml, to_dict
from metaevo.studies.sweeps import objective_of
from metaevo.tuning.config import SearchSettings
from metaevo.tuning.run import run_sweep
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
    sweep = replace(
        settings.sweep, trials=1, sampler="random", scheduler="none", confirm_seeds=0, storage=None
    )
    settings = replace(settings, space={}, sweep=sweep)
    objective = objective_of(settings, Space({}, {}))
    return run_sweep(objective, settings, run_dir=run_dir, resume=False)
