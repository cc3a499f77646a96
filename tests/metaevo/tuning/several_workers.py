"""Real processes share a study and one is killed: the same test for every storage.

python several_workers.py DIRECTORY NAME [URL] is one of the processes. It appends "NAME INDEX RATE"
to DIRECTORY/evaluated for every trial that it evaluates. Of a journal, "first" is the leading
process. Once DIRECTORY/hang-NAME exists, it asks for two trials, writes their numbers to
DIRECTORY/hung and stops for ever.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from optuna.distributions import FloatDistribution
from scipy.stats import qmc

from metaevo.tuning import storage
from metaevo.tuning.config import SweepConfig
from metaevo.tuning.space import Space
from metaevo.tuning.study import Outcome, Study

RATE, TRIALS = "hyperparams.learning_rate", 24


def open_study(directory, url, **options):
    space = Space({RATE: FloatDistribution(1e-5, 1e-1, log=True)}, {})
    config = SweepConfig(trials=TRIALS, sampler="sobol", storage=url, study="shared")
    return Study(directory, config, space, seed=5, name="", **options)


def work(directory, name, url=None):
    storage.BEAT_SECONDS, storage.DEAD_SECONDS = 1, 5
    is_worker = url is None and name != "first"
    with open_study(directory, url, is_worker=is_worker) as study:
        while True:
            batch = study.ask(2)
            if batch and (directory / f"hang-{name}").exists():
                numbers = " ".join(str(trial.number) for trial in batch)
                (directory / "hung.tmp").write_text(numbers)
                (directory / "hung.tmp").rename(directory / "hung")
                time.sleep(600)
            for trial in batch:
                rate = trial.params[RATE]
                with open(directory / "evaluated", "a") as file:
                    file.write(f"{name} {trial.index} {rate!r}\n")
                study.tell(trial, Outcome("complete", -rate, [rate]))
            if not batch and (is_worker or not study.running()):
                break
            time.sleep(0.02)


def start(directory, name, url):
    command = [sys.executable, __file__, str(directory), name, *([url] if url else [])]
    with open(directory / "output", "a") as output:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.Popen(command, env=environment, stdout=output, stderr=output)


def wait_for(path, *processes):
    for _ in range(1200):
        if path.exists():
            return
        for process in processes:
            assert process.poll() in (None, 0), output_of(path.parent)
        time.sleep(0.05)
    raise AssertionError(f"{path.name} never appeared")


def output_of(directory):
    return (directory / "output").read_text()


def evaluated(directory):
    lines = [line.split() for line in (directory / "evaluated").read_text().splitlines()]
    return sorted(int(index) for _, index, _ in lines)


def check_that_a_killed_worker_loses_nothing(directory, url):
    (directory / "hang-victim").touch()
    open_study(directory, url)  # a worker does not begin one
    victim = start(directory, "victim", url)
    wait_for(directory / "hung", victim)
    others = [start(directory, name, url) for name in ("first", "second")]
    wait_for(directory / "evaluated", *others)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    for each in others:
        assert each.wait(timeout=120) == 0, output_of(directory)

    indices = evaluated(directory)
    if url is not None and url.startswith("sqlite"):  # which cannot lock a row
        indices = sorted(set(indices))
    assert indices == list(range(TRIALS))  # each exactly once
    rates = 1e-5 * 1e4 ** qmc.Sobol(1, scramble=True, rng=5).random_base2(6)[:, 0]
    study = open_study(directory, url)
    records = study.records()
    assert sorted(record.index for record in records) == list(range(TRIALS))
    hung = [int(number) for number in (directory / "hung").read_text().split()]
    for record in records:
        assert abs(record.params[RATE] / rates[record.index] - 1) < 1e-9
        assert url is None or record.number not in hung  # a repetition has a new number
    assert {record.index for record in records} >= set(hung)
    assert all(trial.state.is_finished() for trial in study.optuna_study.trials)
    assert abs(study.best().value / -min(rates[:TRIALS]) - 1) < 1e-9


if __name__ == "__main__":
    work(Path(sys.argv[1]), *sys.argv[2:])
