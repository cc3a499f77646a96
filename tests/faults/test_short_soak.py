"""A run does not leak: it does not hold more after each 30 checkpoints."""

import gc
import itertools
import os
import sys
import threading

import jax
import pytest

from metaevo.commands import evolve as evolve_script
from metaevo.commands import train as training
from metaevo.runs import checkpoint
from tests.faults.works import WORKS

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs Linux"),
]

COUNTED = (40, 70, 100)
"""after how many checkpoints this process is counted: what grows only once was a cache"""
BOUNDS = {"open files": 0, "threads": 0, "live arrays": 0, "objects": 15, "blocks": 500}
"""how much more there may be after 30 checkpoints: caches of Python and JAX still fill"""
ARGUMENTS = {
    "evolution": ("--evolution.generations=200", "--run.checkpoint_every=2"),
    "train": ("--seeds=2", "--train.total_timesteps=6000", "--run.checkpoint_seconds=0"),
}


def held():
    """What this process holds."""
    gc.collect()
    return {
        "open files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "live arrays": len(jax.live_arrays()),
        "objects": len(gc.get_objects()),
        "blocks": sys.getallocatedblocks(),
    }


def growth(name, run_dir, monkeypatch, leak=lambda: None):
    """What a run holds more after every 30 checkpoints."""
    found, saved, save = [], itertools.count(1), checkpoint.save

    def counting(*arguments, **others):
        path = save(*arguments, **others)
        leak()
        if next(saved) in COUNTED:
            found.append(held())
        return path

    monkeypatch.setattr(checkpoint, "save", counting)
    argv = [*WORKS[name].command(run_dir)[4:], *ARGUMENTS[name]]
    if name == "train":
        assert training.main(argv, description=None) == 0
    else:
        argv += ["--evaluation.seeds=0"]
        assert evolve_script.main(argv) == 0
    assert len(found) == len(COUNTED)
    return {
        key: min(later[key] - now[key] for now, later in itertools.pairwise(found))
        for key in BOUNDS
    }


def too_much(more):
    return [key for key, n in more.items() if n > BOUNDS[key]]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_nothing_grows(name, tmp_path, monkeypatch):
    more = growth(name, tmp_path / "run", monkeypatch)
    assert too_much(more) == [], more


def test_a_leak_is_found(tmp_path, monkeypatch):
    kept = []
    more = growth("train", tmp_path / "run", monkeypatch, lambda: kept.append([jax.numpy.ones(1)]))
    assert too_much(more) == ["live arrays", "objects"], more
