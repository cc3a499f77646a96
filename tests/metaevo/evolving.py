"""Evolutions of components: their settings and studies, and small runs by the command."""

import signal

from metaevo.commands.evolve import main
from metaevo.config import dump_yaml, from_dict
from metaevo.evolution import devices
from metaevo.studies.settings import settings_class
from metaevo.studies.study import Study
from metaevo.studies.sweeps import make_objective, sweep_class

GRID = {
    "learner": "q_learning",
    "task": {"env": "GridWorld", "env_params": {"size": 3, "slip_probability": 0.1}},
    "train": {"total_timesteps": 200, "num_steps": 20},
    "fitness": {"mean_return": 0.0, "reward_per_step": 10.0},
}
EVOLUTION = GRID | {
    "evolve": "value_loss",
    "component": {"form": "additive", "hidden_sizes": [2], "start": "squared"},
    "strategy": {"population_size": 4, "sigma": 0.1},
    "evolution": {"generations": 1, "validation_seeds": 2, "num_devices": 1},
    "evaluation": {"seeds": 0},
}


def settings_of(raw):
    """The settings that a YAML file with these contents gives."""
    return from_dict(settings_class(raw), raw)


def objective_of(raw):
    """The objective of a sweep with such settings."""
    return make_objective(from_dict(sweep_class(raw), raw))


def study_of(raw, run_path=None):
    """The study of such settings."""
    settings = settings_of(raw)
    return Study(settings.build(run_path), settings)


def evolve(folder, raw, *argv):
    """Evolve with these settings by the command; return the run directory."""
    (folder / "tiny.yaml").write_text(dump_yaml(raw))
    run = folder / "run"
    argv = ["--config", str(folder / "tiny.yaml"), "--run-dir", str(run), *argv]
    assert main(argv) == 0
    return run


def stop_after(monkeypatch, looks):
    """Stop an evolution as SIGTERM would, when so many blocks have begun."""
    seen = []

    def agree_to_stop(requested):
        seen.append(requested)
        return requested if len(seen) < looks else signal.SIGTERM

    monkeypatch.setattr(devices, "agree_to_stop", agree_to_stop)


def forget_code(monkeypatch):
    """Be a process that has imported nothing of somebody's own."""
    for name in ("_LOADED", "EXECUTED", "_MOVED"):
        monkeypatch.setattr(f"metaevo.config.code.{name}", {})
