"""Pictures and films of what a trained policy does."""

import os
from collections.abc import Sequence
from typing import IO, Any

import jax
import numpy as np
from PIL import Image

from purerl import acting
from purerl.envs.registry import OWN
from purerl.types import Learner


def save_gif(
    path: str | os.PathLike[str] | IO[bytes], frames: Sequence[np.ndarray], fps: float = 8.0
) -> None:
    """Write a film that repeats endlessly: frames uint8 [height, width, 3], `fps` a second.

    Raises:
        ValueError: if there are no frames, or `fps` is not between 0 and 100 (the format counts
            hundredths of a second).
    """
    if not frames:
        raise ValueError("a film needs at least one frame")
    if not 0 < fps <= 100:
        raise ValueError(f"fps = {fps!r} must be above 0 and at most 100")
    first, *others = (Image.fromarray(frame) for frame in frames)
    duration = round(1000 / fps)  # milliseconds
    first.save(path, "GIF", save_all=True, append_images=others, duration=duration, loop=0)


def painter(env: Any) -> Any:
    """Return the environment that can draw: this one or one that it wraps; None if none.

    Some of gymnax's have a `render` as well, but it returns figures, not frames.
    """
    while env is not None and not isinstance(env, tuple(OWN.values())):
        env = getattr(env, "env", None)
    return env


def record_episode(
    learner: Learner,
    policy: Any,
    key: jax.Array,
    env_params: Any = None,
    *,
    max_steps: int = 1000,
    greedy: bool = True,
) -> list[np.ndarray]:
    """Play one episode and draw every state, from the reset to the last.

    Args:
        learner: the learner; its environment, or one that it wraps, has `render`.
        policy: what `learner.policy` returned.
        key: for resets, moves and actions.
        env_params: the environment's parameters; None for its defaults.
        max_steps: stop after so many steps.
        greedy: take the best action instead of sampling.

    Returns:
        at most `max_steps` + 1 frames, uint8 [height, width, 3].

    Raises:
        ValueError: if the environment cannot draw itself.
    """
    env = learner.env
    env_params = env.default_params if env_params is None else env_params
    canvas = painter(env)
    if canvas is None:
        raise ValueError(f"{env.name} cannot be drawn: it has no `render`")

    ask = getattr(env, "legal_actions", None)

    @jax.jit
    def step(key, obs, state, memory):
        key, act_key, env_key = jax.random.split(key, 3)
        legal = None if ask is None else ask(state, env_params)
        action, memory = acting.act(
            learner, policy, memory, act_key, obs,
            greedy=greedy, env_params=env_params, legal=legal,
        )  # fmt: skip
        # not `step`, which would go on to the next episode before the last state is drawn
        obs, state, _, terminated, _ = env.step_env(env_key, state, action, env_params)
        return key, obs, state, memory, terminated | env.is_truncated(state, env_params)

    key, reset_key = jax.random.split(key)
    obs, state = env.reset(reset_key, env_params)
    frames = [canvas.render(state, env_params)]
    done, memory = False, acting.begin(learner)
    while not done and len(frames) <= max_steps:
        key, obs, state, memory, done = step(key, obs, state, memory)
        frames.append(canvas.render(state, env_params))
    return frames
