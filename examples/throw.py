"""A problem of your own: aim with the fewest numbers, compared with a hand-written throw.

`metaevo evolve --problem examples/throw.py:Throw --wind 2.0 --generations 60`
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

import metaevo


@dataclass(frozen=True)
class Throw(metaevo.MetaProblem):
    """Throw a ball at a target in random wind: an angle and a speed are evolved."""

    wind: float = 1.0
    """mean speed of the wind against the throw, m/s"""
    target: float = 10.0
    """distance, m"""

    def init(self, key):
        return {"angle": jnp.float32(0.5), "speed": jnp.float32(8.0)}

    def evaluate(self, key, meta_params, task):
        angle, speed = meta_params["angle"], meta_params["speed"]
        wind = self.wind * (1.0 + 0.2 * jax.random.normal(key))
        seconds = 2.0 * speed * jnp.sin(angle) / 9.81
        distance = (speed * jnp.cos(angle) - wind) * seconds
        miss = jnp.abs(distance - self.target)
        return metaevo.Evaluation(-miss, {"flight_seconds": seconds})

    def contenders(self):
        """Throw at 45 degrees, with the speed that hits the target without wind."""
        point = {"angle": jnp.float32(jnp.pi / 4), "speed": jnp.sqrt(9.81 * self.target)}
        return [metaevo.Contender("without wind", self, point)]

    def findings(self, meta_params):
        degrees = float(jnp.degrees(meta_params["angle"]))
        return [f"It throws at {degrees:.0f} degrees and {float(meta_params['speed']):.1f} m/s."]
