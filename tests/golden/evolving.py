"""How the cases of `evolutions.py` run: plain data in, plain numbers out.

This is the only module of the frozen evolutions that knows how metaevo is called.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import flax.serialization
import jax
import numpy as np

from metaevo.config import from_dict
from metaevo.evolution.loop import Evolution
from metaevo.evolution.problem import Contender, Purpose, keys_for
from metaevo.runs import checkpoint
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.settings import EvolveSettings, settings_class
from metaevo.studies.study import Study
from metaevo.studies.sweeps import make_objective, sweep_class
from metaevo.tasks import scales
from metaevo.tasks.fitness import Windows
from metaevo.tasks.population import Population
from metaevo.tasks.task import Scale
from metaevo.training.result import load_training
from metaevo.training.run import run_training
from metaevo.training.settings import training_class

Case = dict[str, Any]
Records = list[dict[str, Any]]
"""One for each generation or update: numbers by name, without times."""


def evolve(case: Case) -> tuple[Records, Any]:
    """Evolve in memory; return the records of all generations, and the result."""
    study, settings = _study_of(case)
    problem = study.use(_scales(case))
    evolution = Evolution(problem, settings.strategy.build(), settings.evolution)
    records: Records = []
    for block in evolution.blocks(evolution.start(settings.run.seed)):
        records += block.records
    return records, jax.device_get(evolution.result(block.state))


def score(case: Case) -> dict[str, np.ndarray]:
    """Train contenders with fixed settings on held-out keys; return scores [seeds] by name."""
    study, settings = _study_of(case)
    problem = study.problem
    found = problem.init(jax.random.key(case["seed"]))
    rivals = [Contender("learned", problem, found), *problem.contenders()]
    keys = keys_for(settings.run.seed, Purpose.HELD_OUT, case["seeds"])
    own = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, 0)
    scores: dict[str, np.ndarray] = {}
    for program in {id(each.problem): each.problem for each in rivals}.values():
        (bound,) = program.bound
        here = [each for each in rivals if each.problem is program]
        population = Population(
            bound, here[0].meta_params, program.weights,
            log_every=Windows.at_most(64, bound.learner.config.num_updates).every,
            chunk_size=case["chunk_size"],
        )  # fmt: skip
        by_name = {each.name: each for each in here}
        rows = {
            name: each for name, each in case["contenders"].items() if each["function"] in by_name
        }
        trained = population.train(
            own,
            [bound.hyperparams.replace(**each["settings"]) for each in rows.values()],
            [by_name[each["function"]].meta_params for each in rows.values()],
        )
        scores |= dict(zip(rows, np.asarray(trained.scores), strict=True))
    return {name: scores[name] for name in case["contenders"]}


def objectives(case: Case) -> list[tuple[float | None, np.ndarray]]:
    """Return the objective of each point of a sweep, and the scores [seeds] behind it."""
    names = dict.fromkeys(name for point in case["points"] for name in point)
    raw = {
        **_learner(case),
        **case["slots"],
        "space": {
            name: list(dict.fromkeys(point[name] for point in case["points"])) for name in names
        },
        "sweep": {"seeds": case["seeds"], "statistic": case["statistic"]},
        "run": {
            "seed": case["seed"], "chunk_size": case["chunk_size"], "num_devices": case["devices"],
        },
    }  # fmt: skip
    objective = make_objective(from_dict(sweep_class(raw), raw))
    program, found = objective.start(), []
    for point in case["points"]:
        settings = objective.settings_of(point)
        (rung,) = program.evaluate([settings], Purpose.TUNING, lambda frames: None)
        found.append((objective.value(rung.scores[0]), np.float32(rung.scores[0])))
    return found


def measure_scales(case: Case) -> dict[str, tuple[float, float]]:
    """Return the scores of random play and of the reference on each task."""
    study, _ = _study_of(case)
    if len(case["tasks"]) > 1:
        found = study.measure()["normalisation"]
        return dict(zip(case["tasks"], zip(*found.values(), strict=True), strict=True))
    (name,), (found,) = (
        case["tasks"],
        scales.measure_scales(study.problem, seed=case["seed"]),
    )
    return {name: (found.random, found.reference)}


def train_in_pieces(case: Case, folder: Path, kills: Sequence[int]) -> tuple[Records, Any]:
    """Train in a run directory; return the records of all points of the curves, and the policies.

    `kills` as for `evolve_in_pieces`.
    """
    raw = {
        **_learner(case),
        **case["slots"],
        "seeds": case["seeds"],
        "evaluation": {"episodes": 0, "film": False},
        "run": {
            "seed": case["seed"], "chunk_size": case["chunk_size"], "num_devices": case["devices"],
            "log_every": case["log_every"], "block_seconds": 1e-9, "checkpoint_seconds": 0,
        },
    }  # fmt: skip
    settings = from_dict(training_class(raw), raw)
    for number, kill in enumerate(kills):
        with _killed_after(kill):
            run_training(settings, run_dir=folder, resume=number > 0)
    assert run_training(settings, run_dir=folder, resume=bool(kills)) == 0
    policies = flax.serialization.to_state_dict(load_training(folder).policies)
    return _without_times(RunDirectory(folder).read_metrics("update")), policies


def _learner(case: Case) -> Case:
    weights = {"mean_return": 0.0, "final_return": 0.0, "reward_per_step": 0.0}
    raw: Case = {name: case[name] for name in ("learner", "train", "hyperparams")}
    raw["fitness"] = weights | case["fitness"]
    tasks = {
        name: {key: value for key, value in task.items() if key != "scale"}
        for name, task in case["tasks"].items()
    }
    if len(tasks) == 1:
        (raw["task"],) = tasks.values()
        return raw
    return {**raw, "tasks": tasks}


def _study_of(case: Case) -> tuple[Study, EvolveSettings]:
    ((part, own),) = case["parts"].items()
    given = case.get("evolution", {})
    raw = {
        **_learner(case),
        "evolve": part,
        "component": own,
        "strategy": case.get("strategy", {}),
        "evolution": {
            **given, "block_size": 1, "chunk_size": case["chunk_size"],
            "num_devices": case["devices"] if given else None,
        },
        "evaluation": {"seeds": 0},
        "run": {"seed": case["seed"]},
    }  # fmt: skip
    settings = from_dict(settings_class(raw), raw)
    return Study(settings.build(), settings), settings


def _scales(case: Case) -> Case:
    if len(case["tasks"]) == 1:
        return {}
    scales = [Scale(*task["scale"]) for task in case["tasks"].values()]
    return {"normalisation": dict(zip(Scale._fields, zip(*scales, strict=True), strict=True))}


class _KilledError(BaseException):
    """Ends a run without warning."""


@contextlib.contextmanager
def _killed_after(count: int) -> Iterator[None]:
    """Let a run die once it has written that many checkpoints."""
    save, calls = checkpoint.save, []

    def killing(*args: Any, **kwargs: Any) -> None:
        if len(calls) == count:
            raise _KilledError
        calls.append(args)
        save(*args, **kwargs)

    with mock.patch.object(checkpoint, "save", killing):
        try:
            yield
        except _KilledError:
            return
    raise AssertionError(f"the run ended with {len(calls)} checkpoints")


def _without_times(records: Sequence[Any]) -> Records:
    return [
        {name: value for name, value in record.items() if name not in ("kind", "seconds")}
        for record in records
    ]
