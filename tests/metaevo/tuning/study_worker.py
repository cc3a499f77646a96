"""A worker process of a study, for the tests: python study_worker.py DIRECTORY NAME TRIALS [URL].

Appends "NAME INDEX LEARNING_RATE" to DIRECTORY/evaluated for every trial that it evaluates. Of a
journal, "first" is the leading process. Once DIRECTORY/hang-NAME exists, it asks for two trials,
writes their numbers to DIRECTORY/hung and stops for ever.
"""

import sys
import time
from pathlib import Path

from optuna.distributions import FloatDistribution

from metaevo.tuning import storage
from metaevo.tuning.config import SweepConfig
from metaevo.tuning.space import Space
from metaevo.tuning.study import Outcome, Study


def main(directory: Path, name: str, trials: int, url: str | None) -> None:
    space = Space({"hyperparams.learning_rate": FloatDistribution(1e-5, 1e-1, log=True)}, {})
    config = SweepConfig(trials=trials, sampler="sobol", storage=url, study="shared")
    storage.BEAT_SECONDS, storage.DEAD_SECONDS = 1, 5
    is_worker = url is None and name != "first"
    with Study(directory, config, space, seed=5, name="", is_worker=is_worker) as study:
        while True:
            batch = study.ask(2)
            if batch and (directory / f"hang-{name}").exists():
                numbers = " ".join(str(trial.number) for trial in batch)
                (directory / "hung.tmp").write_text(numbers)
                (directory / "hung.tmp").rename(directory / "hung")
                time.sleep(600)
            for trial in batch:
                rate = trial.params["hyperparams.learning_rate"]
                with open(directory / "evaluated", "a") as file:
                    file.write(f"{name} {trial.index} {rate!r}\n")
                study.tell(trial, Outcome("complete", -rate, [rate]))
            if not batch and (is_worker or not study.running()):
                break
            time.sleep(0.02)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), *(sys.argv[4:] or [None]))
