"""Sizes of a quick look (`--quick`), which only shows that everything works."""

from typing import Any

from metaevo.config.plain import PlainDict

NOTE = (
    "Sizes are tiny (--quick), to see that everything works and what comes out. The numbers mean "
    "nothing."
)
UPDATES = 20
"""most updates of an agent"""
STEPS = 5120
"""most environment steps of an agent, if it still makes `FEWEST` updates"""
FEWEST = 4
MOST = {
    "seeds": 2,
    "evaluation.episodes": 2,
    "evaluation.finalists": 2,
    "evaluation.gymnasium": 1,
    "evaluation.screening_seeds": 2,
    "evaluation.seeds": 8,
    "evaluation.selection_seeds": 2,
    "evaluation.settings": 1,
    "evaluation.tuning_seeds": 2,
    "evolution.generations": 4,
    "evolution.seeds_per_candidate": 2,
    "evolution.validation_every": 2,
    "evolution.validation_seeds": 8,
    "run.evolution_seeds": 2,
    "strategy.population_size": 8,
    "sweep.batch": 4,
    "sweep.confirm_seeds": 4,
    "sweep.grid_points": 2,
    "sweep.seeds": 2,
    "sweep.trials": 4,
}
"""largest values of a quick look"""


def quickened(settings: PlainDict) -> PlainDict:
    """Return settings, as plain data, reduced to a run of seconds and marked as quick."""
    small = {key: _shrunk(key, value) for key, value in settings.items()}
    if "train" in small:
        _shorten(small)
    _quicken_unseen(small)
    _quicken_tasks(small)
    small["run"]["quick"] = True
    return small


def _shorten(small: PlainDict) -> None:
    """Reduce the training to a few updates."""
    train, hyperparams = small["train"], small["hyperparams"]
    train["total_timesteps"] = _few_steps(train)
    for key in ("annealing_steps", "epsilon_decay_steps"):
        if hyperparams.get(key):
            hyperparams[key] = min(hyperparams[key], float(train["total_timesteps"]))


def _quicken_unseen(small: PlainDict) -> None:
    """Reduce unseen tasks to one, and the training on it."""
    evaluation = small.get("evaluation", {})
    if evaluation.get("unseen"):
        evaluation["unseen"] = _few_tasks(small["train"], evaluation["unseen"], 1)


def _quicken_tasks(small: PlainDict) -> None:
    """Reduce the number of tasks, and the training on each to a length that is not drawn."""
    if not small.get("tasks"):
        return
    small["tasks"] = _few_tasks(small["train"], small["tasks"], 2)
    for task in small["tasks"].values():
        rules = task["sample"].items()
        task["sample"] = {name: rule for name, rule in rules if name != "updates"}
    if small["tasks_per_generation"] is not None:
        small["tasks_per_generation"] = min(small["tasks_per_generation"], len(small["tasks"]))


def _few_tasks(train: PlainDict, tasks: PlainDict, most: int) -> PlainDict:
    """Return the first so many named tasks, with short trainings."""
    return {
        name: task
        | {"train": task["train"] | {"total_timesteps": _few_steps(train | task["train"])}}
        for name, task in list(tasks.items())[:most]
    }


def _few_steps(train: PlainDict) -> int:
    """Return the environment steps of a few updates."""
    steps = train["num_steps"] * train.get("num_envs", 1)
    updates = min(UPDATES, max(FEWEST, STEPS // steps))
    few = max(updates * steps, 2 * train.get("learning_starts", 0))
    return int(min(train["total_timesteps"], few))


def is_quick(settings: PlainDict) -> bool:
    """Whether settings, as plain data, are marked as quick."""
    return bool(settings.get("run", {}).get("quick"))


def mark(settings: PlainDict) -> PlainDict:
    """Return the entries that mark the evaluation.json of a quick look."""
    return {"quick": True, "note": NOTE} if is_quick(settings) else {}


def _shrunk(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shrunk(f"{key}.{name}", each) for name, each in value.items()}
    if key in MOST and value is not None:
        return min(value, MOST[key])
    return value
