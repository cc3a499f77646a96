"""Small settings of the game studies, and runs of them by the command."""

import yaml

from metaevo.commands.evolve import main
from metaevo.config import from_dict
from metaevo.studies.registry import find

EVOLUTION = {"generations": 2, "validation_every": 1, "validation_seeds": 2, "num_devices": 1}
TRAIN = {
    "num_envs": 2, "num_steps": 32, "update_epochs": 1, "num_minibatches": 2, "hidden_sizes": [8],
}  # fmt: skip
SHAPING = {
    "study": "shaping",
    "game": {"steps": 8},
    "policy": {"hidden": 4},
    "strategy": {"population_size": 16, "sigma": 0.3},
    "evolution": {
        **EVOLUTION, "generations": 4, "seeds_per_candidate": 4, "validation_every": 2,
        "validation_seeds": 8, "block_size": 2,
    },
    "evaluation": {
        "seeds": 16, "tuning_seeds": 4, "opponents": ["tit_for_tat"], "learning_rates": [0.5],
    },
}  # fmt: skip

DQN = {
    "learner": "dqn",
    "train": {
        "total_timesteps": 80, "num_steps": 10, "num_envs": 2, "batch_size": 16,
        "learning_starts": 20,
    },
}  # fmt: skip
TALK = {
    "study": "cheap_talk",
    "channel": {"hidden_sizes": [8], "scale": 3.0},
    "train": {**TRAIN, "total_timesteps": 256},
    "strategy": {"population_size": 4, "sigma": 0.1},
    "evolution": {**EVOLUTION, "block_size": 1},
    "evaluation": {
        "seeds": 4, "victims": {"slow": {"hyperparams": {"learning_rate": 0.0}}, "dqn": DQN}
    },
}  # fmt: skip


def merged(base, changes):
    """Settings with changes, section by section."""
    found = dict(base)
    for key, value in changes.items():
        found[key] = {**found.get(key, {}), **value} if isinstance(value, dict) else value
    return found


def study_of(base, **changes):
    """The study of settings with changes."""
    raw = merged(base, changes)
    kind = find(raw)
    return kind.make(from_dict(kind.settings_class(raw), raw))


def run(settings, path, *argv):
    """Evolve into `path / "run"` by the command; returns its exit code."""
    config = path / "config.yaml"
    config.write_text(yaml.safe_dump(settings))
    return main(["--config", str(config), "--run-dir", str(path / "run"), *argv])
