"""Two real processes share a study and one is killed: the same test for every storage."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from optuna.distributions import FloatDistribution
from scipy.stats import qmc

from metaevo.tuning.config import SweepConfig
from metaevo.tuning.space import Space
from metaevo.tuning.study import Study

WORKER = Path(__file__).with_name("study_worker.py")
ROOT = WORKER.parents[3]
TRIALS = 24


def check_that_a_killed_worker_loses_nothing(directory: Path, url: str | None) -> None:
    (directory / "hang-victim").touch()
    open_study(directory, url)  # a worker does not begin one
    victim = start(directory, "victim", url)
    wait_for(directory / "hung", victim)
    others = [start(directory, name, url) for name in ("first", "second")]
    wait_for(directory / "evaluated", *others)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    for each in others:
        assert each.wait(timeout=120) == 0, said(directory)

    hung = [int(number) for number in (directory / "hung").read_text().split()]
    lines = [line.split() for line in (directory / "evaluated").read_text().splitlines()]
    indices = sorted(int(index) for _, index, _ in lines)
    if url is not None and url.startswith("sqlite"):  # which cannot lock a row
        indices = sorted(set(indices))
    assert indices == list(range(TRIALS))  # each exactly once
    rates = 1e-5 * 1e4 ** qmc.Sobol(1, scramble=True, rng=5).random_base2(6)[:, 0]
    study = open_study(directory, url)
    records = study.records()
    assert sorted(record.index for record in records) == list(range(TRIALS))
    for record in records:
        expected = rates[record.index]
        assert abs(record.params["hyperparams.learning_rate"] / expected - 1) < 1e-9
        assert url is None or record.number not in hung  # a repetition has a new number
    assert {record.index for record in records} >= set(hung)
    assert study.running() == study.remaining() == 0
    assert abs(study.best().value / -min(rates[:TRIALS]) - 1) < 1e-9


def start(directory: Path, name: str, url: str | None) -> subprocess.Popen:
    command = [sys.executable, str(WORKER), str(directory), name, str(TRIALS)]
    with open(directory / "output", "a") as output:
        return subprocess.Popen(
            command + ([url] if url else []),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=output,
            stderr=output,
        )


def said(directory: Path) -> str:
    return (directory / "output").read_text()


def wait_for(path: Path, *processes: subprocess.Popen) -> None:
    for _ in range(1200):
        if path.exists():
            return
        for process in processes:
            assert process.poll() in (None, 0), said(path.parent)
        time.sleep(0.05)
    raise AssertionError(f"{path.name} never appeared")


def open_study(directory: Path, url: str | None) -> Study:
    space = Space({"hyperparams.learning_rate": FloatDistribution(1e-5, 1e-1, log=True)}, {})
    config = SweepConfig(trials=TRIALS, sampler="sobol", storage=url, study="shared")
    return Study(directory, config, space, seed=5, name="")
