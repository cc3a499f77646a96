"""The effect of tuning: PPO's clip on CartPole-v1, tuned and untuned, on fresh seeds.

python -m experiments.benchmarks.tuning [--seeds 256] [--first-seeds 4] [--repeats 4] [--seed 0]

The 96 settings include the preset's, configs/evolve_drift/ppo.yaml (16,384 steps per agent).
Tuned by the race of the held-out comparison and, for comparison, by the best of all means over 8
seeds. Prints a table.
"""

import argparse
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from experiments.benchmarks.tables import Table
from metaevo import statistics
from metaevo.comparison.evaluation import Contender
from metaevo.comparison.racing import cost
from metaevo.comparison.tuning import plan, tune, tuning_space
from metaevo.components.slots import SLOTS
from metaevo.config import from_dict, load_yaml
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.reports.numbers import estimate
from metaevo.studies.settings import experiment_class, make_parts

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "evolve_drift" / "ppo.yaml"
GRID = {
    "learning_rate": (1.25e-3, 2.5e-3, 5e-3, 1e-2, 2e-2, 4e-2),
    "clip_epsilon": (0.1, 0.2, 0.3, 0.4),
    "gae_lambda": (0.9, 0.95, 0.98, 1.0),
}
ALL_SEEDS = 8
CLIP = np.int32(0)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    add = parser.add_argument
    add("--seeds", type=int, default=256, help="fresh seeds; default: 256")
    add("--first-seeds", type=int, default=4, help="of the race; default: 4")
    add("--repeats", type=int, default=1, help="with other seeds; default: 1")
    add("--seed", type=int, default=0, help="of the first repeat; default: 0")
    options = parser.parse_args()
    raw = {**load_yaml(CONFIG), "evolve": "drift"}
    raw["evaluation"] = {"sampler": "grid", "space": GRID, "tuning_seeds": options.first_seeds}
    settings: Any = from_dict(experiment_class(raw, None), raw)
    slot = SLOTS["policy_loss"]
    functions = {slot.name: slot.chosen_of(slot.names("ppo"))}
    contender = Contender(
        make_parts(settings).tasks(settings, functions, CLIP),
        settings.hyperparams, CLIP, settings.fitness, curve_points=2,
    )  # fmt: skip
    table = Table("tuning", "setting", "agents", "IQM on fresh seeds", "against untuned")
    for repeat in range(options.repeats):
        measure(settings, contender, options.seed + repeat, options.seeds, table)


def measure(settings: Any, contender: Contender, seed: int, seeds: int, table: Table) -> None:
    """Tune in both ways, train the winners on fresh seeds, print the rows of the table."""
    config = settings.evaluation
    space = tuning_space(config, settings)
    race = plan(
        config, space, settings.hyperparams,
        frames_per_seed=contender.frames_per_seed, evolution_frames=0,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        raced = tune(
            contender, CLIP, space, config, race, directory=Path(folder) / "clip", seed=seed,
            comparable=lambda fitness: fitness[:, 0],
        )  # fmt: skip
    grid = [dict(zip(GRID, values, strict=True)) for values in product(*GRID.values())]
    few = contender.run(keys_for(seed, Purpose.TUNING, ALL_SEEDS), grid, [CLIP] * len(grid))
    best = grid[int(np.argmax([each.fitness.mean() for each in few]))]
    variants = {
        "none": (race.untuned, 0),
        f"best of {len(grid)} means over {ALL_SEEDS} seeds": (best, len(grid) * ALL_SEEDS),
        "race": (raced, cost(race.rounds)),
    }
    keys = keys_for(seed, Purpose.HELD_OUT, seeds)
    scores = contender.run(keys, [each for each, _ in variants.values()], [CLIP] * len(variants))
    untuned = scores[0].fitness[:, 0]
    for (name, (setting, agents)), result in zip(variants.items(), scores, strict=True):
        found = statistics.summarise(result.fitness)
        pair = statistics.compare(result.fitness[:, 0], untuned)
        text = ", ".join(f"{key} {value:g}" for key, value in setting.items())
        difference = estimate(pair.difference, *pair.difference_interval, sign=True)
        score = estimate(found.iqm, *found.interval)
        table.row(name, text, agents, score, difference if agents else "")


if __name__ == "__main__":
    main()
