"""A study of your own: aim with the fewest numbers, compared with a hand-written throw.

`metaevo evolve --study examples/my_study.py:Throwing --wind 2.0 --generations 30`
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

import metaevo


@dataclass(frozen=True, kw_only=True)
class Settings(metaevo.StudySettings):
    wind: float = 1.0
    """mean speed of the wind against the throw, m/s"""
    target: float = 10.0
    """distance, m"""


class Throw(metaevo.MetaProblem):
    """Throw a ball at a target in random wind: an angle and a speed are evolved."""

    def __init__(self, settings):
        self.settings = settings

    def init(self, key):
        return {"angle": jnp.float32(0.5), "speed": jnp.float32(8.0)}

    def evaluate(self, key, meta_params, task):
        angle, speed = meta_params["angle"], meta_params["speed"]
        wind = self.settings.wind * (1.0 + 0.2 * jax.random.normal(key))
        seconds = 2.0 * speed * jnp.sin(angle) / 9.81
        distance = (speed * jnp.cos(angle) - wind) * seconds
        miss = jnp.abs(distance - self.settings.target)
        return metaevo.Evaluation(-miss, {"flight_seconds": seconds})


class Throwing(metaevo.Study):
    """What evolves, and the hand-written throw that it is compared with."""

    Settings = Settings
    free = ("wind", "target")

    def make_problem(self, settings):
        return Throw(settings)

    def contenders(self):
        """Throw at 45 degrees, with the speed that hits the target without wind."""
        angle, speed = jnp.pi / 4, jnp.sqrt(9.81 * self.settings.target)
        return {"without wind": {"angle": jnp.float32(angle), "speed": speed}}

    def findings(self, meta_params):
        degrees = float(jnp.degrees(meta_params["angle"]))
        return [f"It throws at {degrees:.0f} degrees and {float(meta_params['speed']):.1f} m/s."]
