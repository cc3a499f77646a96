import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image, ImageColor

from metaevo.reports.plots import BLUE, GREEN, INK
from metaevo.reports.policies import record_episode, renderer, save_gif
from metaevo.reports.results import draw_values
from purerl import envs
from purerl.envs.grid import MOVES
from tests.purerl.probes import Fixed

KEY = jax.random.key(0)
AGENT, WALL, GOAL, EMPTY = map(ImageColor.getrgb, (BLUE, INK, GREEN, "white"))


def colours(frame, row):
    return tuple(map(tuple, frame[24 * row + 12, 12::24].tolist()))


@pytest.mark.smoke
def test_an_episode_is_drawn_from_its_reset_to_its_last_state(tmp_path):
    env, params = envs.make("GridWorld", size=(2, 4), goal=(0, 3), walls=((1, 1),))
    frames = record_episode(Fixed(env), (), KEY, params)
    assert len(frames) == 4  # the last shows the goal, not the next episode's start
    for col, frame in enumerate(frames):
        row = (EMPTY, EMPTY, EMPTY, GOAL)
        assert colours(frame, 0) == (*row[:col], AGENT, *row[col + 1 :])
        assert colours(frame, 1) == (EMPTY, WALL, EMPTY, EMPTY)
    params = params.replace(max_steps_in_episode=2)
    assert len(record_episode(Fixed(env), (), KEY, params)) == 3  # truncated
    assert len(record_episode(Fixed(env), (), KEY, params, max_steps=1)) == 2
    down = record_episode(Fixed(env), (), KEY, greedy=False)  # default parameters
    assert len(down) == 101
    assert colours(down[-1], 1)[0] == AGENT

    save_gif(tmp_path / "film.gif", frames, fps=4)
    with Image.open(tmp_path / "film.gif") as film:
        assert (film.n_frames, film.info["duration"]) == (4, 250)
        film.seek(3)
        shade = np.asarray(film.convert("RGB"), int)
    assert np.abs(shade - frames[3]).max() <= 8  # colours of a palette


def test_the_frames_of_a_film_share_a_palette(tmp_path):
    noise = np.random.default_rng(0).integers(256, size=(90, 90, 3), dtype=np.uint8)
    still = [np.vstack([noise, np.full((2, 90, 3), 25 * at, np.uint8)]) for at in range(10)]
    save_gif(tmp_path / "one.gif", still[:1])
    save_gif(tmp_path / "film.gif", still)
    sizes = [(tmp_path / name).stat().st_size for name in ("one.gif", "film.gif")]
    assert sizes[1] < 2 * sizes[0]  # what stays is in the file once


def test_an_environment_of_the_user_draws_itself(tmp_path):
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
    with pytest.raises(ValueError, match=r"float32 \[2, 2\]"):
        save_gif(tmp_path / "film.gif", [jnp.zeros((2, 2))])
    assert renderer(envs.make("Catch-bsuite")[0]) is None


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "actions"),
    [
        ("CartPole-v1", (1,) * 9),
        ("Acrobot-v1", (2,)),
        ("MountainCar-v0", (2,) * 9),
        ("Pendulum-v1", (1,)),
        ("Breakout-MinAtar", (1,)),
        ("navix/Empty-5x5", (0, 1, 2)),
        ("xminigrid/Empty-5x5", (0, 1, 2)),
        ("GridWorlds", (0, 1)),
        ("craftax/Classic-Symbolic", (1, 2, 3, 4)),
        ("craftax/Symbolic", (1, 2, 3, 4)),
    ],
)
def test_environments_draw_their_states(name, actions):
    suite = name.partition("/")[0] if "/" in name else "gymnax"
    pytest.importorskip(suite)
    pool = {} if suite == "gymnax" else {"pool": 2 if suite == "craftax" else None}
    env, params = envs.make(name, **pool)
    draw, step, space = renderer(env), jax.jit(env.step_env), env.action_space(params)
    _, state = jax.jit(env.reset)(KEY, params)
    frames = [draw(state, params)]
    for action in actions:
        _, state, *_ = step(KEY, state, jnp.full(space.shape, action, space.dtype), params)
        frames.append(draw(state, params))
    assert all(frame.dtype == np.uint8 and frame.shape[2:] == (3,) for frame in frames)
    assert len({frame.shape for frame in frames}) == 1
    assert len({frame.tobytes() for frame in frames}) > 1


def test_the_figure_of_a_table_shows_greedy_moves_and_visited_cells():
    q, visits = np.zeros((6, 4)), np.ones((6, 4))
    q[0, 0], q[1, 1], q[4, 2], visits[5] = 2.0, 1.0, 0.5, 0
    q[5, 3] = 9.0
    axes, counts, *_ = draw_values(q, visits, (2, 3), MOVES).axes
    shown = axes.images[0].get_array()
    assert shown.filled(-1.0).tolist() == [[2.0, 1.0, 0.0], [0.0, 0.5, -1.0]]
    assert counts.images[0].get_array().mask.tolist() == [[False] * 3, [False, False, True]]
    (arrows,) = axes.collections  # right, down and left; none without a preference
    assert arrows.get_offsets().tolist() == [[0, 0], [1, 0], [1, 1]]
    assert np.sign([arrows.U, arrows.V]).tolist() == [[1, 0, -1], [0, 1, 0]]
