"""An evolved optimizer without one of its inputs, and Adam, untuned on unseen tasks.

python -m experiments.benchmarks.unseen_inputs RUN tasks.yaml --without size --seeds 24

Prints the interquartile mean of the fitness with its 95% interval. RUN has evolved the component
`optimizer`; the YAML file is one of `metaevo evaluate --unseen`.
"""

import argparse
from pathlib import Path
from typing import Any


def main(argv: list[str] | None = None) -> None:
    """Train and print a row a task and rule.

    Args:
        argv: without the program's name; by default those of this process.
    """
    from metaevo.components.signals import FEATURES, SIGNALS

    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("run", type=Path)
    parser.add_argument("tasks", type=Path)
    parser.add_argument("--without", choices=FEATURES, default="size")
    parser.add_argument("--seeds", type=int, default=24)
    options = parser.parse_args(argv)

    import numpy as np

    from metaevo import statistics
    from metaevo.comparison import entries
    from metaevo.comparison.protocol import contender_maker
    from metaevo.components import discovery
    from metaevo.config import from_dict, load_yaml
    from metaevo.evolution.seeding import Purpose, keys_for
    from metaevo.runs.run_directory import RunDirectory
    from metaevo.studies.learner import LearnerStudy
    from metaevo.studies.settings import experiment_class

    raw = RunDirectory.open(options.run).read_config()["config"]
    raw["evaluation"]["unseen"] = load_yaml(options.tasks)
    study = LearnerStudy(from_dict(experiment_class(raw, None), raw), options.run)
    _, found = discovery.load_all(options.run)
    rule = {name: np.asarray(value) for name, value in found.items()}
    kept = np.arange(rule["hidden"].shape[1]) != FEATURES.index(options.without)
    adam = {name: np.zeros_like(value) for name, value in rule.items()}
    adam["mix"] = np.array([signal == "mean_9" for signal in SIGNALS], np.float32)
    rules: dict[str, Any] = {
        "Adam": adam,
        "the rule": rule,
        f"without {options.without}": {**rule, "hidden": rule["hidden"] * kept},
    }
    keys = keys_for(2, Purpose.TUNING, options.seeds)
    for task in study.unseen:
        maker = contender_maker(task.settings, task.parts)
        contender = entries.entries_of(task.settings, task.parts, {"learned": found}, maker)[
            "learned"
        ].contender
        results = contender.run(keys, [{}] * len(rules), list(rules.values()))
        scores = {name: each.fitness for name, each in zip(rules, results, strict=True)}
        for name, values in statistics.fill_missing(scores).items():
            of_rule = statistics.summarise(values)
            low, high = of_rule.interval
            print(f"{task.name} | {name} | {of_rule.iqm:.4g} [{low:.4g}, {high:.4g}]", flush=True)


if __name__ == "__main__":
    from metaevo.evolution import devices

    devices.setup()
    main()
