import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from purerl import envs
from purerl.envs import grid_world
from purerl.envs.render import record_episode, renderer, save_gif
from tests.purerl.probes import Fixed

KEY = jax.random.key(0)
AGENT, WALL, GOAL, EMPTY = (38, 92, 204), (70, 70, 78), (96, 190, 104), (246, 246, 242)


def shown(frame, row, col):
    """Colours at the middle of a cell and near its upper left corner."""
    middle, corner = frame[24 * row + 12, 24 * col + 12], frame[24 * row + 2, 24 * col + 2]
    return tuple(middle.tolist()), tuple(corner.tolist())


@pytest.mark.smoke
def test_grid_world():
    env, params = envs.make("GridWorld", observations="raw", size=(2, 3), walls=((0, 1),))
    frame = env.render(grid_world.EnvState(cell=jnp.int32(3), time=jnp.int32(0)), params)
    assert (frame.shape, frame.dtype) == ((48, 72, 3), np.uint8)
    assert shown(frame, 1, 0) == (AGENT, EMPTY)
    assert shown(frame, 0, 1) == (WALL, WALL)
    assert shown(frame, 1, 2) == (GOAL, GOAL)
    assert shown(frame, 0, 0) == shown(frame, 0, 2) == shown(frame, 1, 1) == (EMPTY, EMPTY)
    at_goal = env.render(grid_world.EnvState(cell=jnp.int32(5), time=jnp.int32(0)), params)
    assert shown(at_goal, 1, 2) == (AGENT, GOAL)


def test_record_episode(tmp_path):
    env, params = envs.make("GridWorld", size=(2, 4), goal=(0, 3))
    frames = record_episode(Fixed(env), (), KEY, params)
    assert len(frames) == 4  # the last shows the goal, not the next episode's start
    for col, frame in enumerate(frames):
        assert shown(frame, 0, col)[0] == AGENT
    params = params.replace(max_steps_in_episode=2)
    assert len(record_episode(Fixed(env), (), KEY, params)) == 3  # truncated
    assert len(record_episode(Fixed(env), (), KEY, params, max_steps=1)) == 2
    down = record_episode(Fixed(env), (), KEY, greedy=False)  # default parameters
    assert len(down) == 101
    assert shown(down[-1], 1, 0)[0] == AGENT

    save_gif(tmp_path / "film.gif", frames, fps=4)
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == 4
        assert film.info["duration"] == 250
        film.seek(3)
        shade = np.asarray(film.convert("RGB"), int)
    assert np.abs(shade - frames[3]).max() <= 8  # colours of a palette


def test_an_environment_of_the_user_draws_itself():
    class Drawn:
        name = "Drawn"

        def render(self, state, params):
            return np.full((2, 2, 3), state + params, np.uint8)

    class Wrapper:
        def __init__(self, env):
            self.env = env

        def inner(self, params):
            return params["inner"]

    draw = renderer(Wrapper(Drawn()))
    np.testing.assert_array_equal(draw(1, {"inner": 2}), np.full((2, 2, 3), 3))
    Drawn.render = lambda self, state, params: jnp.zeros((2, 2))
    with pytest.raises(ValueError, match=r"Drawn: render returns float32 \[2, 2\]"):
        draw(1, {"inner": 2})
    assert renderer(envs.make("Catch-bsuite")[0]) is None


@pytest.mark.parametrize(
    ("name", "actions"),
    [
        ("navix/Empty-5x5", (0, 1, 2)),
        ("xminigrid/Empty-5x5", (0, 1, 2)),
        ("brax/fast", ()),
        pytest.param("brax/inverted_pendulum", (1, 1), marks=pytest.mark.long),
        pytest.param("craftax/Classic-Symbolic", (1, 2, 3, 4), marks=pytest.mark.long),
        pytest.param("craftax/Symbolic", (1, 2, 3, 4), marks=pytest.mark.long),
    ],
)
def test_suites_draw_their_states(name, actions):
    suite = name.partition("/")[0]
    pytest.importorskip(suite)
    env, params = envs.make(name, pool=2 if suite == "craftax" else None)
    draw = renderer(env)
    _, state = jax.jit(env.reset)(KEY, params)
    frames = [draw(state, params)]
    step, space = jax.jit(env.step_env), env.action_space(params)
    for action in actions:
        _, state, *_ = step(KEY, state, jnp.full(space.shape, action, space.dtype), params)
        frames.append(draw(state, params))
    assert all(frame.dtype == np.uint8 and frame.shape[2:] == (3,) for frame in frames)
    assert len({frame.shape for frame in frames}) == 1
    assert not actions or len({frame.tobytes() for frame in frames}) > 1
