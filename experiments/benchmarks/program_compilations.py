"""Workers that train an agent with each of many different programs, compilation included.

The programs are random slopes of Q-learning's value loss, of which no two have the same text. A
measurement compiles anew and reads no cache: either once, and trains all programs in chunks, or
each program by itself as a formula. All agents have the same seed.
"""

import contextlib
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from experiments.benchmarks.work import Clock, Made, layout

CHUNK = 500
LENGTH, DEPTH = 16, 6


class _Work(NamedTuple):
    config: Any
    """of the programs"""
    texts: list[str]
    programs: list[Any]
    trained_with: Callable[[Callable], Callable]
    """from a value loss to `(key, meta_params) -> mean return`"""


def together(count: int, steps: int) -> Made:
    """Train all programs with one compilation; the amount is in environment steps."""
    work = _work(count, steps)  # sets devices up before anything starts JAX
    import jax
    import numpy as np

    from metaevo.components import program

    chunks = [
        jax.tree.map(lambda *each: np.stack(each), *work.programs[start : start + CHUNK])
        for start in range(0, count, CHUNK)
    ]

    def measure(repeat: int) -> dict[str, float]:
        clock = Clock()
        value_loss = program.make(work.config).apply
        trained = jax.jit(jax.vmap(work.trained_with(value_loss), in_axes=(None, 0)))
        for chunk in chunks:
            jax.block_until_ready(trained(jax.random.key(repeat), chunk))
        return clock.sample(count * steps)

    return measure, {"layout": layout(1, min(count, CHUNK))}


def one_by_one(count: int, steps: int) -> Made:
    """Compile and train each program by itself; the amount is in environment steps."""
    work = _work(count, steps)
    import jax

    from metaevo.components import formula

    def measure(repeat: int) -> dict[str, float]:
        clock = Clock()
        for text in work.texts:
            config = formula.Config(gives="slope", expression=text, constants={})
            component = formula.make(config)
            trained = jax.jit(work.trained_with(component.apply))
            jax.block_until_ready(
                trained(jax.random.key(repeat), component.init(jax.random.key(0)))
            )
        return clock.sample(count * steps)

    return measure, {"layout": layout(1, 1)}


def _work(count: int, steps: int) -> _Work:
    import jax

    jax.config.update("jax_enable_compilation_cache", False)
    from metaevo.evolution import devices

    devices.setup(1)
    from metaevo.components import program
    from purerl import envs, q_learning

    config = program.Config(
        slot="value_loss", gives="slope", inputs=("error",), length=LENGTH, depth=DEPTH
    )
    env, env_params = envs.make("GridWorld", observations="index")
    settings = q_learning.Config(total_timesteps=steps, num_steps=100)

    def trained_with(value_loss: Callable) -> Callable:
        train = q_learning.make_train(settings, env, value_loss=value_loss)

        def trained(key, meta_params):
            return train(key, q_learning.Hyperparams(), meta_params, env_params)

        return trained

    texts, programs = different(config, count)
    return _Work(config, texts, programs, trained_with)


def different(config: Any, count: int) -> tuple[list[str], list[Any]]:
    """Return random programs with different texts that are formulas, too, and these."""
    import jax

    from metaevo.components import expressions, program, program_text

    draw = jax.jit(jax.vmap(program.make(config).init))
    found: dict[str, Any] = {}
    for seed in itertools.count():
        drawn = jax.device_get(draw(jax.random.split(jax.random.key(seed), 2 * count)))
        for codes, constants in zip(drawn["codes"], drawn["constants"], strict=True):
            text = program_text.text(codes[0], constants[0], config.names)
            with contextlib.suppress(ValueError):  # such as the root of a negative number
                expressions.parse(text, config.names, {})
                found.setdefault(text, {"codes": codes, "constants": constants})
            if len(found) == count:
                return list(found), list(found.values())
    raise AssertionError
