"""Pictures and films: what they show, and files that can be read again."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from purerl import envs
from purerl.envs import doors, drawing, grid_world
from purerl.envs.render import record_episode, renderer, save_gif

KEY = jax.random.key(0)
AGENT, WALL, GOAL, EMPTY = (38, 92, 204), (70, 70, 78), (96, 190, 104), (246, 246, 242)


class Route:
    def mode(self, key):
        return jnp.int32(0)

    def sample(self, key):
        return jnp.int32(1)


class RightThenDown:
    """A learner that goes right for ever, or down if it is not greedy."""

    def __init__(self, env):
        self.env = env

    def action_distribution(self, policy, obs, memory=None, legal=None):
        return Route(), None


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


def test_doors_and_its_reference_look_the_same():
    env, params = envs.make("Doors", observations="raw")
    cells = {"agent": jnp.int32(3), "goal": jnp.int32(20)}
    frame = env.render(doors.EnvState(**cells, time=jnp.int32(0)), params)
    assert frame.shape == (360, 360, 3)
    assert shown(frame, 0, 3) == (AGENT, EMPTY)
    assert shown(frame, 1, 5) == (GOAL, GOAL)
    assert shown(frame, 0, 7) == (WALL, WALL)
    assert shown(frame, 2, 7) == (EMPTY, EMPTY)
    reference = gymnasium.make("purerl/DoorsNumPy-v0", render_mode="rgb_array")
    reference.reset(options={"agent": (0, 3), "goal": (1, 5)})
    np.testing.assert_array_equal(reference.render(), frame)


def test_record_episode(tmp_path):
    env, params = envs.make("GridWorld", size=(2, 4), goal=(0, 3))
    frames = record_episode(RightThenDown(env), (), KEY, params)
    assert len(frames) == 4  # the last shows the goal, not the next episode's start
    for col, frame in enumerate(frames):
        assert shown(frame, 0, col)[0] == AGENT
    params = params.replace(max_steps_in_episode=2)
    assert len(record_episode(RightThenDown(env), (), KEY, params)) == 3  # truncated
    assert len(record_episode(RightThenDown(env), (), KEY, params, max_steps=1)) == 2
    down = record_episode(RightThenDown(env), (), KEY, greedy=False)  # default parameters
    assert len(down) == 101
    assert shown(down[-1], 1, 0)[0] == AGENT

    save_gif(tmp_path / "film.gif", frames, fps=4)
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == 4
        assert film.info["duration"] == 250
        film.seek(3)
        shade = np.asarray(film.convert("RGB"), int)
    assert np.abs(shade - frames[3]).max() <= 8  # colours of a palette


BLUE, ORANGE = (38, 92, 204), (213, 94, 0)


def state_of(name, **fields):
    """A state of an environment of gymnax with some fields of its own, its renderer, parameters."""
    env, params = envs.make(name)
    state = env.reset(KEY, params)[1]
    return renderer(env)(state.replace(**{k: jnp.float32(v) for k, v in fields.items()}), params)


def centre(frame, colour):
    """Mean row and column of the pixels that have about this colour."""
    near = np.abs(frame.astype(int) - colour).max(axis=-1) < 40
    rows, columns = np.nonzero(near)
    return rows.mean(), columns.mean()


def test_a_cart_and_its_pole_are_where_the_state_says():
    upright = state_of("CartPole-v1", x=0.0, theta=0.0)
    assert (upright.shape, upright.dtype) == ((200, 300, 3), np.uint8)
    assert centre(upright, BLUE)[1] == pytest.approx(150, abs=1)
    assert centre(upright, ORANGE)[1] == pytest.approx(150, abs=1)
    right = state_of("CartPole-v1", x=1.2, theta=0.2)
    # 300 pixels show 2.4 x 1.15 to each side; a positive angle leans to the right
    assert centre(right, BLUE)[1] == pytest.approx(150 + 1.2 / (2.4 * 1.15) * 150, abs=2)
    assert centre(right, ORANGE)[1] > centre(right, BLUE)[1] + 3
    assert centre(right, ORANGE)[0] < centre(right, BLUE)[0]


def test_links_hang_and_stand_as_their_angles_say():
    hanging = state_of("Acrobot-v1", joint_angle1=0.0, joint_angle2=0.0)
    standing = state_of("Acrobot-v1", joint_angle1=np.pi, joint_angle2=0.0)
    folded = state_of("Acrobot-v1", joint_angle1=0.0, joint_angle2=np.pi / 2)
    assert centre(hanging, ORANGE)[0] > centre(hanging, BLUE)[0] > 100
    assert centre(standing, ORANGE)[0] < centre(standing, BLUE)[0] < 100
    assert centre(folded, ORANGE)[1] > 155
    up = state_of("Pendulum-v1", theta=0.0, last_u=0.0)
    left = state_of("Pendulum-v1", theta=np.pi / 2, last_u=0.0)  # counterclockwise
    assert centre(up, ORANGE) == pytest.approx((66, 150), abs=12)
    assert centre(left, ORANGE)[1] < 140
    valley, hill = (state_of("MountainCar-v0", position=x) for x in (-0.5, 0.4))
    assert centre(hill, BLUE)[1] > centre(valley, BLUE)[1]
    assert centre(hill, BLUE)[0] < centre(valley, BLUE)[0]


def test_cells_of_minatar_have_the_colours_of_their_channels():
    env, params = envs.make("Breakout-MinAtar")
    obs, state = env.reset(KEY, params)
    frame, planes = renderer(env)(state, params), np.asarray(obs)
    assert frame.shape == (240, 240, 3)
    cells = frame[12::24, 12::24]
    paddle = [tuple(colour) for colour in cells[planes[..., 0] > 0].tolist()]
    assert set(paddle) == {BLUE}
    bricks = {tuple(colour) for colour in cells[np.argmax(planes > 0, axis=-1) == 3].tolist()}
    empty = {tuple(colour) for colour in cells[~(planes > 0).any(axis=-1)].tolist()}
    assert len(bricks) == len(empty) == 1
    assert len({BLUE, *bricks, *empty}) == 3


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
    Drawn.render = lambda self, state, params: jnp.full((2, 2, 3), state, jnp.uint8)
    assert isinstance(draw(1, {"inner": 2}), np.ndarray)
    Drawn.render = lambda self, state, params: jnp.zeros((2, 2))
    with pytest.raises(ValueError, match=r"Drawn: render returns float32 \[2, 2\]"):
        draw(1, {"inner": 2})
    assert renderer(envs.make("Catch-bsuite")[0]) is None


def test_mistakes(tmp_path):
    env, params = envs.make("Catch-bsuite")
    with pytest.raises(ValueError, match=r"Catch-bsuite cannot be drawn: it has no `render`"):
        record_episode(RightThenDown(env), (), KEY, params)
    with pytest.raises(ValueError, match=r"a film needs at least one frame"):
        save_gif(tmp_path / "film.gif", [])
    frames = [np.zeros((4, 4, 3), np.uint8)]
    for fps in (0, -1.0, 101, float("nan")):
        with pytest.raises(ValueError, match=r"fps = .* must be above 0 and at most 100"):
            save_gif(tmp_path / "film.gif", frames, fps=fps)


@pytest.mark.parametrize(
    ("name", "actions"),
    [
        ("navix/Empty-5x5", (0, 1, 2)),
        ("xminigrid/Empty-5x5", (0, 1, 2)),
        ("pgx/2048", (0, 1, 2, 3)),
        ("pgx/minatar-breakout", (1, 1)),
        ("jumanji/Snake", (0, 1)),
        ("jumanji/Maze", (0, 1, 2, 3)),
        ("jumanji/Game2048", (0, 1, 2, 3)),
        ("jumanji/SlidingTilePuzzle", (0, 1, 2, 3)),
        ("jumanji/Minesweeper", (7, 55)),
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


def test_boards_of_2048_have_a_colour_for_each_number():
    picture = drawing.board_2048(np.array([[0, 1, 0], [1, 11, 12]]))
    corners = picture[4::48, 4::48].astype(int)
    assert corners.shape == (2, 3, 3)
    np.testing.assert_array_equal(corners[0, 0], corners[0, 2])
    np.testing.assert_array_equal(corners[0, 1], corners[1, 0])
    assert (corners[0, 0] != corners[0, 1]).any()
    np.testing.assert_array_equal(corners[1, 1], ORANGE)
    np.testing.assert_array_equal(corners[1, 2], ORANGE)  # no brighter than 2048
    labels = [picture[:48, :48], picture[:48, 48:96]]
    assert [len(np.unique(each.reshape(-1, 3), axis=0)) > 2 for each in labels] == [False, True]


def test_a_snake_and_its_fruit_are_where_the_state_says():
    pytest.importorskip("jumanji")
    env, params = envs.make("jumanji/Snake")
    _, state = env.reset(KEY, params)
    play = state.inner.state
    cells = renderer(env)(state, params)[12::24, 12::24]
    for position, colour in ((play.head_position, BLUE), (play.fruit_position, ORANGE)):
        np.testing.assert_array_equal(cells[position.row, position.col], colour)
    outside = type(play.head_position)(row=jnp.int32(-1), col=jnp.int32(12))
    dead = state.replace(inner=state.inner._replace(state=play.replace(head_position=outside)))
    cells = renderer(env)(dead, params)[12::24, 12::24]
    assert not (cells == BLUE).all(axis=-1).any()


def test_mines_are_shown_once_they_are_opened():
    pytest.importorskip("jumanji")
    env, params = envs.make("jumanji/Minesweeper", pool=None)
    _, state = env.reset(KEY, params)
    mine = state.inner.state.flat_mine_locations[0]
    before = renderer(env)(state, params)
    _, state, _, terminated, _ = env.step_env(KEY, state, mine, params)
    assert terminated
    row, column = divmod(int(mine), 10)
    after = renderer(env)(state, params)
    changed = (before != after).any(axis=-1)
    np.testing.assert_array_equal(after[48 * row + 4, 48 * column + 4], ORANGE)
    changed[48 * row : 48 * (row + 1), 48 * column : 48 * (column + 1)] = False
    assert not changed.any()


def test_a_robot_stands_on_the_floor_and_the_camera_moves_with_it():
    pytest.importorskip("brax")
    env, params = envs.make("brax/hopper")
    _, state = jax.jit(env.reset)(KEY, params)

    def moved(x, z):
        places = state.inner.pipeline_state.x
        places = places.replace(pos=places.pos + np.array([[x, 0.0, z]]))
        pipeline = state.inner.pipeline_state.replace(x=places)
        inner = state.inner.replace(pipeline_state=pipeline)
        return renderer(env)(state.replace(inner=inner), params)

    standing, jumping, walking = moved(0, 0), moved(0, 0.4), moved(0.3, 0)
    # 300 pixels show 4 metres
    assert centre(standing, ORANGE)[0] - centre(jumping, ORANGE)[0] == pytest.approx(30, abs=1)
    assert centre(standing, ORANGE) == pytest.approx(centre(walking, ORANGE), abs=1)
    assert (standing != walking).any()  # marks on the floor
