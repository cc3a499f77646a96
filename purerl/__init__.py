"""Reinforcement-learning algorithms: one file each, with one pure JAX function for training.

    from purerl import envs, ppo
    env, env_params = envs.make("CartPole-v1")
    train = ppo.make_train(ppo.Config(), env)

`purerl.types` is the glossary. Learners consist of `parts`; `fast` has faster equivalents of JAX's
functions. The package does not depend on evolution.
"""

__all__ = ["dqn", "envs", "lpg", "ppo", "q_learning", "types"]
