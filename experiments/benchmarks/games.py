"""The suite `games`: evolution against learners in matrix games, beside others' code."""

import argparse
import itertools
import time
from collections.abc import Callable
from typing import Any

from experiments.benchmarks.comparison import OURS, Comparison
from experiments.benchmarks.external import externals
from experiments.benchmarks.processes import own

Measure = Callable[[int], dict[str, float]]
PRESET = "shaping/ipd"
GAMES = 16
"""of a candidate"""
CANDIDATES = 128
"""By default."""
HIDDEN = 16, 256
"""units of a meta-policy: of our preset, and of the authors' M-FOS"""
GENERATIONS = 4
"""of one measurement of ours; peers measure one"""
AIM = 50.0
"""How much faster than the authors' M-FOS ours should be on a core: `--external 'M-FOS=...'`."""


def suite(options: argparse.Namespace) -> dict[str, Any]:
    """Evolving meta-policies against naive learners, 16 games each, on one device."""
    comparison = Comparison("games", "game", "units", "candidates", products=False)
    for hidden, candidates in itertools.product(HIDDEN, options.agents or [CANDIDATES]):
        ours = own("games_block", hidden=hidden, candidates=candidates, games=GAMES)
        others = externals(
            options, suite="games", task="ipd", agents=candidates, games=GAMES, hidden=hidden
        )
        comparison.case(
            {OURS: ours, **others}, candidates * GAMES, options.repeats, "ipd", hidden, candidates,
            aims={"cpu": dict.fromkeys(others, AIM)},
        )  # fmt: skip
    return {"rows": comparison.rows, "failures": comparison.failures}


def games_block(candidates: int, games: int, hidden: int) -> tuple[Measure, dict[str, Any]]:
    """Generations of the preset on one device: ask, play, tell; nothing is validated."""
    from metaevo.evolution import devices

    devices.setup(1)
    from metaevo.config import from_dict, load_yaml, merge, presets
    from metaevo.evolution.evolution import Evolution
    from metaevo.studies.games.shaping import ShapingStudy
    from metaevo.studies.games.shaping_settings import ShapingSettings

    changes = {
        "policy": {"hidden": hidden},
        "strategy": {"population_size": candidates},
        "evolution": {"seeds_per_candidate": games, "validation_seeds": 0, "num_devices": 1},
    }
    settings = from_dict(ShapingSettings, merge(load_yaml(presets.find(PRESET)), changes))
    problem = ShapingStudy(settings).problem({})
    evolution = Evolution(problem, settings.strategy, settings.evolution, seed=0)
    state = evolution.init()

    def measure(repeat):
        nonlocal state
        start, cpu = time.perf_counter(), time.process_time()
        state, _ = evolution.run_block(state, GENERATIONS)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        amount = GENERATIONS * candidates * games
        return {"seconds": seconds, "cpu_seconds": cpu, "amount": amount}

    about = {"layout": f"1 device, chunks of {evolution.chunk_size}"}
    return measure, about


WORKERS = {"games_block": games_block}
