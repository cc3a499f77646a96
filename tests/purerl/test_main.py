"""`python -m purerl` trains one agent and prints its learning curve."""

import jax
import pytest

from purerl import envs, q_learning
from purerl.__main__ import main


def test_the_table_sums_the_training_results(capsys):
    main(["q_learning", "--steps", "9000", "--seed", "3"])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[0] for row in rows] == [f"{1000 * i:,}" for i in range(1, 10)]
    env, env_params = envs.make("GridWorld", observations="index")
    train = q_learning.make_train(q_learning.Config(total_timesteps=9000), env)
    found = jax.jit(train)(jax.random.key(3), q_learning.Hyperparams(), None, env_params).episodes
    assert sum(int(row[1]) for row in rows) == int(found.episodes.sum())


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["sarsa"], "invalid choice: 'sarsa'"),
        (["ppo", "CartPole-v2"], "CartPole-v2"),
        (["q_learning", "--steps", "7"], "total_timesteps = 7"),
        (["q_learning", "CartPole-v1"], "CartPole-v1"),
    ],
)
def test_mistakes_are_named(argv, text, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(argv)
    assert text in capsys.readouterr().err
