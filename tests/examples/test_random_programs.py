"""examples/random_programs.py finds the best of its programs."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from metaevo.components import interpreter, program
from metaevo.evolution.problem import Evaluation
from tests.metaevo.toy import evolution, run

FILE = Path(__file__).parents[2] / "examples" / "random_programs.py"
POOL, POPULATION = 60, 16
CONFIG = program.Config(slot="schedule", length=8)
POINTS = np.linspace(0, 1, 9, dtype=np.float32)


class Fit:
    """Programs of progress that are near to its square root."""

    init = staticmethod(program.make(CONFIG).init)

    def evaluate(self, key, meta_params):
        own = meta_params["codes"][0], meta_params["constants"][0]
        value = interpreter.evaluate(CONFIG.operations, own, [POINTS])
        return Evaluation(-jnp.mean(jnp.square(value - np.sqrt(POINTS))), {})


@pytest.mark.long
def test_it_keeps_the_best_of_its_programs():
    this = evolution(
        Fit(),
        {"validation_seeds": 0, "generations": 4, "num_devices": 1},
        algorithm=f"{FILE}:RandomPrograms",
        population_size=POPULATION,
        settings={"pool": POOL},
    )
    state, metrics = run(this, 4)  # 1 + 4 * 15 programs
    pool = jax.tree.map(lambda leaf: leaf[0], state.strategy)["pool"]
    fitness = np.asarray(jax.vmap(lambda each: Fit().evaluate(None, each).fitness)(pool))
    best = this.strategy.best(jax.tree.map(lambda leaf: leaf[0], state.strategy))
    assert Fit().evaluate(None, best).fitness == pytest.approx(fitness.max(), rel=1e-5)
    assert metrics["fitness_best"].max() == pytest.approx(fitness.max(), rel=1e-5)
    assert fitness.max() > fitness[0]
