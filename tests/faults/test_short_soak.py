"""A run does not leak: it holds as much after 100 checkpoints as after 50."""

import concurrent.futures
import gc
import itertools
import multiprocessing
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
    pytest.mark.faults,
    pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs Linux"),
]

MIDDLE, END = 50, 100
"""checkpoints, after which is counted"""
BOUNDS = {"open files": 0, "threads": 0, "live arrays": 0, "objects": 15, "blocks": 500}
"""how much more there may be at the end: caches of Python and JAX still fill (about 240 blocks)"""
ARGUMENTS = {
    "evolution": ("--evolution.generations=200", "--evolution.block_size=2"),
    "train": ("--seeds=2", "--train.total_timesteps=6000", "--run.checkpoint_seconds=0"),
}


def resources():
    gc.collect()
    return {
        "open files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "live arrays": len(jax.live_arrays()),
        "objects": len(gc.get_objects()),
        "blocks": sys.getallocatedblocks(),
    }


def growth(name, run_dir):
    found, saved, save = [], itertools.count(1), checkpoint.save

    def counting(*arguments, **others):
        path = save(*arguments, **others)
        if next(saved) in (MIDDLE, END):
            found.append(resources())
        return path

    argv = [*WORKS[name].command(run_dir)[4:], *ARGUMENTS[name]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "save", counting)
        if name == "train":
            assert training.main(argv) == 0
        else:
            assert evolve_script.main([*argv, "--evaluation.seeds=0"]) == 0
    middle, end = found
    return {key: end[key] - middle[key] for key in middle}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_nothing_grows(name, tmp_path):
    """In a process without the caches of other tests."""
    new = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=new) as process:
        more = process.submit(growth, name, tmp_path / "run").result()
    assert {key: n for key, n in more.items() if n > BOUNDS[key]} == {}
