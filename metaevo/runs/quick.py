"""The sizes of a quick look (`--quick`), which only shows that everything works."""

import copy

from metaevo.config.plain import PlainDict

NOTE = (
    "Sizes are tiny (--quick), to see that everything works and what comes out. The numbers mean "
    "nothing."
)
STEPS, UPDATES = 2560, 4
"""environment steps of an agent, and the least updates that they are"""
TASKS = 2
MOST = {
    "": {"seeds": 2, "tasks_per_generation": TASKS},
    "evaluation": {
        "episodes": 2, "finalists": 2, "gymnasium": 1, "screening_seeds": 2, "seeds": 8,
        "selection_seeds": 2, "settings": 1, "tuning_seeds": 2,
    },
    "evolution": {
        "generations": 4, "seeds_per_candidate": 2, "validation_every": 2, "validation_seeds": 8,
    },
    "fitness": {"evaluations": 2},
    "run": {"evolution_seeds": 2},
    "strategy": {"population_size": 8},
    "sweep": {"batch": 4, "confirm_seeds": 4, "seeds": 2, "trials": 4},
}  # fmt: skip
"""largest values, by section"""


def quickened(settings: PlainDict) -> PlainDict:
    """Return settings, as plain data, reduced to a run of seconds and marked as quick."""
    small = copy.deepcopy(settings)
    for section, sizes in MOST.items():
        values = small.get(section, {}) if section else small
        for name, most in sizes.items():
            if values.get(name) is not None:
                values[name] = min(values[name], most)
    unseen = small.get("evaluation", {}).get("unseen")
    for tasks, number in ((small.get("tasks") or {}, TASKS), (unseen or {}, 1)):
        for name in list(tasks)[number:]:
            del tasks[name]
        for task in tasks.values():
            task["train"]["total_timesteps"] = _few_steps({**small["train"], **task["train"]})
            task["sample"].pop("updates", None)  # a length that is drawn
    if "train" in small:
        small["train"]["total_timesteps"] = _few_steps(small["train"])
    small["run"]["quick"] = True
    return small


def _few_steps(train: PlainDict) -> int:
    """Return the environment steps of a few updates."""
    update = train["num_steps"] * train.get("num_envs", 1)
    few = max(UPDATES * update, STEPS, 2 * train.get("learning_starts", 0))
    return int(min(train["total_timesteps"], few))
