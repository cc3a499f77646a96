import jax
import pytest

import metaevo
from purerl import envs, lpg
from tests.metaevo.evolving import evolve

pytestmark = pytest.mark.long

TINY = """
evolve: lpg
learner: lpg
task: {env: GridWorlds, env_params: {size: 3, max_steps_in_episode: 6}}
train: {total_timesteps: 192, num_envs: 4, num_steps: 8, shortest_lifetime: 0.5}
component: {hidden_size: 4, temporal: true}
fitness: {mean_return: 0, reward_per_step: 1}
strategy: {population_size: 4, sigma: 0.5}
evolution: {generations: 3, validation_every: 2, validation_seeds: 2, num_devices: 1}
evaluation: {seeds: 4, settings: 0}
"""


def test_a_run_is_compared_drawn_reported_and_loaded(tmp_path):
    run_dir = evolve(tmp_path, TINY)
    scores = metaevo.Scores.load(run_dir / "scores.npz")
    assert scores.contenders == ("learned", "a2c")
    figures = {path.name for path in (run_dir / "figures").iterdir()}
    assert figures >= {"credit.png", "scores.png"}
    assert (run_dir / "report.html").is_file()

    update_rule, meta_params = metaevo.load(run_dir)
    env, env_params = envs.make("GridWorld", size=3)
    train = lpg.make_train(lpg.Config(32, 4, 8), env, update_rule=update_rule)
    outcome = jax.jit(train)(jax.random.key(0), lpg.Hyperparams(), meta_params, env_params)
    assert outcome.episodes.steps == 32
