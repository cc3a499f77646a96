"""Real processes share a study and one is killed: the same test for every database.

python several_processes.py DIRECTORY NAME URL is one of the processes. It appends "NAME NUMBER" to
DIRECTORY/evaluated for every trial that it evaluates. The victim only asks for two trials, writes
their numbers to DIRECTORY/hung and stops for ever.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from optuna.distributions import FloatDistribution

from metaevo.config.space import Space
from metaevo.tuning import storage
from metaevo.tuning.config import SweepConfig
from metaevo.tuning.study import Study, best_of
from tests.metaevo.tuning.conftest import complete

RATE, TRIALS = "hyperparams.learning_rate", 24


def open_study(directory, url):
    space = Space({RATE: FloatDistribution(1e-5, 1e-1, log=True)})
    config = SweepConfig(trials=TRIALS, sampler="random", storage=url, study="shared")
    return Study(directory, config, space, seed=5)


def work(directory, name, url):
    storage.BEAT_SECONDS, storage.DEAD_SECONDS = 1, 5
    with open_study(directory, url) as study:
        while (batch := study.ask(2)) or study.running():
            if name == "victim":
                numbers = " ".join(str(trial.number) for trial in batch)
                (directory / "hung.tmp").write_text(numbers)
                (directory / "hung.tmp").rename(directory / "hung")
                time.sleep(600)
            for trial in batch:
                rate = trial.params[RATE]
                with open(directory / "evaluated", "a") as file:
                    file.write(f"{name} {trial.number}\n")
                study.tell(complete(trial, -rate, scores=[rate]))
            time.sleep(0.02)


def start(directory, name, url):
    command = [sys.executable, __file__, str(directory), name, url]
    with open(directory / "output", "a") as output:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.Popen(command, env=environment, stdout=output, stderr=output)


def check_all_trials(directory, url, names, repeated=0):
    """Let processes work: each trial is evaluated once, by any of them. Return the trials.

    Optuna fails trials of a dead process and then queues their repetitions. A process that counts
    in between asks for others in their place.
    """
    for process in [start(directory, name, url) for name in names]:
        assert process.wait(timeout=120) == 0, (directory / "output").read_text()
    lines = (directory / "evaluated").read_text().splitlines()
    study = open_study(directory, url)
    trials = study.trials()
    assert sorted(int(line.split()[1]) for line in lines) == [each.number for each in trials]
    # Processes that ask for the last one at the same time get one each.
    assert TRIALS <= len(trials) < TRIALS + len(names) + repeated
    assert len({trial.params[RATE] for trial in trials}) == len(trials)
    assert all(trial.state.is_finished() for trial in study.optuna_study.trials)
    assert best_of(trials).value == -min(trial.params[RATE] for trial in trials)
    return {trial.number: trial.params[RATE] for trial in trials}, study.optuna_study.trials


def check_that_a_killed_process_loses_nothing(directory, url):
    victim, hung = start(directory, "victim", url), directory / "hung"
    while not hung.exists():
        assert victim.poll() is None, (directory / "output").read_text()
        time.sleep(0.05)
    victim.kill()
    victim.wait()
    evaluated, trials = check_all_trials(directory, url, ["first", "second"], repeated=2)
    for number in map(int, hung.read_text().split()):
        assert number not in evaluated  # a repetition has a new number
        assert trials[number].params[RATE] in evaluated.values()


if __name__ == "__main__":
    work(Path(sys.argv[1]), *sys.argv[2:])
