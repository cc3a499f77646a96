"""Training from Python: `metaevo.train`."""

from pathlib import Path
from typing import Any

from metaevo.config import ConfigError, files, from_dict, show
from metaevo.config.plain import PlainMapping
from metaevo.parts import learners
from metaevo.training.result import TrainingResult, check_resources, load_training, population_of
from metaevo.training.run import run_training, train_in_memory
from metaevo.training.settings import training_class, with_task
from purerl.learners import LearnerEntry
from purerl.types import Environment


def train(
    learner: str | LearnerEntry = "ppo",
    *,
    env: str | type | Environment = "CartPole-v1",
    env_params: PlainMapping | None = None,
    seeds: int = 8,
    seed: int = 0,
    run_dir: str | Path | None = None,
    resume: bool = False,
    **sections: Any,
) -> TrainingResult:
    """Train agents side by side on all devices, with hand-written or learned parts.

    Examples:
        >>> result = metaevo.train("ppo", env="CartPole-v1", hyperparams={"learning_rate": 3e-3})
        >>> result.scores.mean()
        >>> options = {"make_optimizer": "zoo:ppo-optimizer", "run_dir": "runs/zoo"}
        >>> metaevo.train("ppo", env="CartPole-v1", **options)
        >>> metaevo.train("ppo", env="CartPole-v1", value_loss=metaevo.load("runs/my_loss"))

    Args:
        learner: its name, such as ppo or `my_learner.py:NAME`, or a `LearnerEntry`.
        env: an environment's name, `my_env.py:Class` or `my_package:Class`, or a gymnax
            environment of your own, as a class or an object.
        env_params: overrides of its parameters.
        seeds: agents, which differ in their random keys only.
        seed: of all randomness.
        run_dir: where to keep checkpoints, metrics, policies and a report; by default nothing is
            written. A new directory, or with `resume` an existing run's directory; a finished run
            is only read.
        resume: continue from the last checkpoint.
        sections: of the settings, such as `train`, `hyperparams` and `fitness`, as dicts; and what
            fills a slot, such as `value_loss`: the name of a hand-written function, the directory
            of a run or a saved part, a part's file, `zoo:NAME`, or without a run_dir a
            function, a pair of function and meta-parameters, as `metaevo.load` returns, or the
            result of `metaevo.evolve`.

    Raises:
        ConfigError: naming the key that is wrong, before compilation.
        KeyboardInterrupt: after SIGINT or SIGTERM, once everything is saved.
    """
    name = learners.name_of(learner)
    given = {"learner": name, "seeds": seeds, "env": env, "env_params": env_params}
    raw = with_task({**given, **sections})
    raw["run"] = {**sections.get("run", {}), "seed": seed}
    kind = training_class(raw)
    functions = {}
    for slot in (each.name for each in learners.find(name).slots):
        value = raw.get(slot)
        if value is not None and hasattr(value, "part"):  # the result of an evolution
            value = raw[slot] = value.part(slot)
        if callable(value) or isinstance(value, tuple):
            functions[slot] = _pair(slot, raw.pop(slot))
        elif isinstance(value, Path):
            raw[slot] = str(value)
    settings = from_dict(kind, raw)
    if run_dir is None:
        if resume:
            raise ConfigError("resume = True: needs run_dir, the directory of the run to continue")
        if "evaluation" in sections:
            raise ConfigError("evaluation: needs run_dir, because its results go to the report")
        population = population_of(settings, given=functions)
        check_resources(settings, population)
        return train_in_memory(settings, population)
    if functions:
        raise ConfigError(
            f"{', '.join(functions)}: with run_dir, give a name or a directory, because a run is "
            "resumed from files"
        )
    code = run_training(settings, run_dir=files.as_path("run_dir", run_dir), resume=resume)
    if code:
        raise KeyboardInterrupt
    return load_training(run_dir)


def _pair(slot: str, value: Any) -> tuple[Any, Any]:
    pair = value if isinstance(value, tuple) else (value, None)
    if len(pair) != 2 or not callable(pair[0]):
        raise ConfigError(
            f"{slot} = {show(value)}: must be a name, a function, or a pair of function and "
            "meta-parameters"
        )
    return pair
