"""Tabular Q-learning (Watkins 1989), one pure function from key to trained agent.

    env, env_params = envs.make("GridWorld", observations="index")
    train = make_train(Config(), env, value_loss=losses.squared)
    result = train(key, Hyperparams(), None, env_params)      # vmap over any of the four

Every step descends the value loss in one entry of the table: `q <- q - learning_rate * dL/dq`. With
`losses.squared` that is the textbook rule (Sutton & Barto 2018, equation 6.8). Steps are not
stored; an `update` is a stretch of `num_steps` steps, a point of the learning curve.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Interval
from flax import struct

from purerl.parts import exploration, losses, rollouts, training
from purerl.parts.policies import choose
from purerl.types import (
    Context,
    Environment,
    EnvParams,
    EpisodeSums,
    LearnerEntry,
    MetaParams,
    PyTree,
    ValueLoss,
)


@dataclass(frozen=True)
class Config:
    """Static settings: a change recompiles.

    Raises:
        ValueError: if no stretch of `num_steps` fits.
    """

    total_timesteps: Annotated[int, Gt(0)] = 100_000
    """environment steps of one agent, rounded down to whole updates"""
    num_steps: Annotated[int, Gt(0)] = 1_000
    """steps of an update, that is of one point of the learning curve; the table changes at every
    step"""
    target: Literal["q_learning", "expected_sarsa", "double"] = "q_learning"
    """value that is bootstrapped: greedy, expected under the policy, or of two tables"""

    def __post_init__(self) -> None:
        if self.num_steps > 0 and self.num_updates < 1:
            raise ValueError(
                f"total_timesteps = {self.total_timesteps} must be at least "
                f"num_steps = {self.num_steps}"
            )

    @property
    def frames_per_update(self) -> int:
        """Environment steps of one update."""
        return self.num_steps

    @property
    def num_updates(self) -> int:
        """Updates of a whole training run."""
        return self.total_timesteps // self.num_steps

    @property
    def batch_size(self) -> int:
        """Transitions of a learning step."""
        return 1


class Hyperparams(struct.PyTreeNode):
    """Scalar settings. Traced: a change never recompiles, and each can be vmapped."""

    epsilon_start: Annotated[float, Interval(ge=0, le=1)] = 0.1
    """probability of a random action at the start"""
    epsilon_end: Annotated[float, Interval(ge=0, le=1)] | None = None
    """probability of a random action after epsilon_decay_steps; null: always epsilon_start"""
    epsilon_decay_steps: Annotated[float, Gt(0)] | None = None
    """environment steps until epsilon_end is reached, linearly; by default total_timesteps"""
    learning_rate: Annotated[float, Ge(0)] = 0.2
    """step size"""
    gamma: Annotated[float, Interval(ge=0, le=1)] = 0.95
    """discount factor"""
    initial_value: float = 0.0
    """initial value of every entry of the table; high values make an agent explore"""
    value_clip_epsilon: Annotated[float, Gt(0)] = 0.2
    """largest move of a value under clipped_squared"""
    huber_delta: Annotated[float, Gt(0)] = 1.0
    """error at which huber turns from squared to linear"""
    loss_slope: float = 0.1
    """slope of sloped_squared at zero error; values settle that far below their targets"""
    expectile: Annotated[float, Interval(gt=0, lt=1)] = 0.7
    """weight of too low values under expectile, where too high ones have 1 minus it"""

    random_play = exploration.random_play


class State(struct.PyTreeNode):
    """State of one agent between two updates."""

    q: jax.Array
    """[tables, num_states, num_actions] action values; two tables for `target: double`"""
    visits: jax.Array
    """[num_states, num_actions] float32, how often each action was taken"""
    update: jax.Array
    """[] int32, updates done"""
    key: jax.Array
    env_state: PyTree
    obs: jax.Array
    """[] int32, the state to act in next"""
    unfinished: rollouts.Unfinished
    epsilon: jax.Array
    """[] probability of a random action in the last step"""
    num_updates: jax.Array | None = None
    """[] int32, length of this training; None for the config's"""


class Policy(struct.PyTreeNode):
    """Tables for acting and for figures, which are saved with an agent."""

    q: jax.Array
    """[num_states, num_actions]"""
    visits: jax.Array
    """[num_states, num_actions]"""
    epsilon: jax.Array
    """[] probability of a random action, unless acting is greedy"""


class TabularPolicy(NamedTuple):
    """A policy that takes a best action, or with probability epsilon a random one."""

    values: jax.Array
    """[num_actions]"""
    epsilon: jax.Array
    """[] probability of a random action"""

    def sample(self, key: jax.Array) -> jax.Array:
        """Draw an action [] int32."""
        explore, choice = exploration.split_uniform(jax.random.uniform(key), self.epsilon)
        return choose(jnp.logical_or(self.values == jnp.max(self.values), explore), choice)

    def mode(self, key: jax.Array) -> jax.Array:
        """Return a best action [] int32, ties broken at random."""
        return choose(self.values == jnp.max(self.values), jax.random.uniform(key))


class Draws(NamedTuple):
    """The random numbers of a step; an update stacks them to [num_steps]."""

    explore: jax.Array
    """[] bool, whether the action is random"""
    choice: jax.Array
    """[] uniform in [0, 1), the choice among the possible actions"""
    table: jax.Array
    """[] int32, the table that learns"""
    epsilon: jax.Array
    """[] the probability with which `explore` was drawn"""
    env_key: jax.Array


class Experience(NamedTuple):
    """Inputs of one learning step."""

    entry: tuple[jax.Array, jax.Array, jax.Array]
    """table, state and action"""
    prediction: jax.Array
    """[] the value of that entry"""
    target: jax.Array
    """[] reward and discounted value of the next state"""
    reward: jax.Array
    """[1]"""
    done: jax.Array
    """[1] bool"""


@dataclass(frozen=True)
class QLearning:
    """The algorithm with its static parts bound; all methods are pure and for one agent.

    Raises:
        ValueError: if the environment's observations or actions are not discrete.
    """

    config: Config
    env: Environment
    value_loss: ValueLoss = losses.squared

    train = training.train

    def __post_init__(self) -> None:
        params = self.env.default_params
        for kind in ("observation", "action"):
            space = getattr(self.env, f"{kind}_space")(params)
            if not hasattr(space, "n"):
                hint = " (make it with observations='index')" if kind == "observation" else ""
                raise ValueError(
                    f"{self.env.name}: tabular Q-learning needs discrete {kind}s, not {space}{hint}"
                )

    def init(
        self,
        key: jax.Array,
        hyperparams: Hyperparams,
        meta_params: MetaParams,
        env_params: EnvParams,
    ) -> State:
        """Return a new agent in a newly reset environment."""
        reset_key, key = jax.random.split(key)
        obs, env_state = self.env.reset(reset_key, env_params)
        num_states = int(self.env.observation_space(env_params).n)
        num_actions = int(self.env.action_space(env_params).n)
        tables = 2 if self.config.target == "double" else 1
        return State(
            q=jnp.full((tables, num_states, num_actions), hyperparams.initial_value, jnp.float32),
            visits=jnp.zeros((num_states, num_actions)),
            update=jnp.int32(0),
            key=key,
            env_state=env_state,
            obs=obs.astype(jnp.int32),
            unfinished=rollouts.Unfinished(jnp.zeros(1), jnp.zeros(1)),
            epsilon=jnp.asarray(hyperparams.epsilon_start, jnp.float32),
        )

    def draw(self, state: State, hyperparams: Hyperparams) -> tuple[jax.Array, Draws]:
        """Return a new key and all random numbers of an update, drawn at once: far cheaper."""
        steps = self.config.num_steps
        key, choice_key, table_key, env_key = jax.random.split(state.key, 4)
        frames = state.update.astype(jnp.float32) * steps + jnp.arange(steps)
        horizon = exploration.total_frames(self.config, state)
        epsilon = exploration.epsilon(hyperparams, frames, horizon)
        explore, choice = exploration.split_uniform(
            jax.random.uniform(choice_key, (steps,)), epsilon
        )
        table = jnp.zeros(steps, jnp.int32)
        if self.config.target == "double":
            table = jax.random.bernoulli(table_key, shape=(steps,)).astype(jnp.int32)
        return key, Draws(explore, choice, table, epsilon, jax.random.split(env_key, steps))

    def experience(
        self,
        q: jax.Array,
        place: tuple[Any, jax.Array],
        draws: Draws,
        hyperparams: Hyperparams,
        env_params: EnvParams,
    ) -> tuple[tuple[Any, jax.Array], Experience]:
        """Take one epsilon-greedy step; return the next state, and inputs of the learning step."""
        env_state, obs = place
        values = jnp.sum(q[:, obs], axis=0)
        among = jnp.logical_or(values == jnp.max(values), draws.explore)
        action = choose(among, draws.choice)
        next_obs, env_state, reward, terminated, truncated, info = self.env.step(
            draws.env_key, env_state, action, env_params
        )
        reward = reward.astype(jnp.float32)
        next_value = self.next_value(q[:, info["final_observation"]], draws)
        target = reward + hyperparams.gamma * jnp.where(terminated, 0.0, next_value)
        entry = draws.table, obs, action
        done = jnp.logical_or(terminated, truncated)
        place = env_state, next_obs.astype(jnp.int32)
        return place, Experience(entry, q[entry], target, reward[None], done[None])

    def next_value(self, values: jax.Array, draws: Draws) -> jax.Array:
        """Return the value of a state by its action values [tables, num_actions]."""
        if self.config.target == "double":  # van Hasselt 2010: one chooses, the other evaluates
            own, other = values[draws.table], values[1 - draws.table]
            return other[jnp.argmax(own)]
        if self.config.target == "expected_sarsa":  # van Seijen et al. 2009
            greedy, uniform = jnp.max(values), jnp.mean(values)
            return (1.0 - draws.epsilon) * greedy + draws.epsilon * uniform
        return jnp.max(values)

    def update(
        self, state: State, hyperparams: Hyperparams, meta_params: MetaParams, env_params: EnvParams
    ) -> tuple[State, EpisodeSums, dict[str, jax.Array]]:
        """Act and learn for `num_steps` steps."""
        context = self.context(state, hyperparams)
        slope = jax.grad(self.value_loss, argnums=2)
        key, draws = self.draw(state, hyperparams)

        def step(carry, draws):
            q, visits, unfinished, sums, squares, place = carry
            place, experience = self.experience(q, place, draws, hyperparams, env_params)
            entry, prediction, target, reward, done = experience
            gradient = slope(meta_params, context, prediction, target, prediction)
            q = q.at[entry].add(-hyperparams.learning_rate * gradient)
            visits = visits.at[entry[1:]].add(1.0)
            unfinished, sums = rollouts.record(unfinished, sums, reward, done)
            squares += jnp.square(prediction - target)
            return (q, visits, unfinished, sums, squares, place), None

        place = state.env_state, state.obs
        squares = jnp.float32(0.0)
        carry = state.q, state.visits, state.unfinished, rollouts.zero_sums(1), squares, place
        carry, _ = jax.lax.scan(step, carry, draws)
        q, visits, unfinished, sums, squares, (env_state, obs) = carry
        metrics = {
            "value_error": jnp.sqrt(squares / self.config.num_steps),
            "visited": jnp.mean(visits > 0),
        }
        state = state.replace(
            q=q,
            visits=visits,
            update=state.update + 1,
            key=key,
            env_state=env_state,
            obs=obs,
            unfinished=unfinished,
            epsilon=draws.epsilon[-1],
        )
        return state, jax.tree.map(jnp.sum, sums), metrics

    def context(self, state: State, hyperparams: Hyperparams) -> Context:
        """Return the context of the slot in this update."""
        return training.context(self.config, state, hyperparams, state.update)

    def value_targets(
        self, state: State, hyperparams: Hyperparams, env_params: EnvParams
    ) -> tuple[jax.Array, jax.Array]:
        """Return predictions and targets [num_steps] of an agent that acts without learning."""
        _, draws = self.draw(state, hyperparams)

        def step(place, draws):
            place, experience = self.experience(state.q, place, draws, hyperparams, env_params)
            return place, (experience.prediction, experience.target)

        return jax.lax.scan(step, (state.env_state, state.obs), draws)[1]

    def policy(self, state: State) -> Policy:
        """Return the parameters for acting, and the visits for figures."""
        return Policy(jnp.mean(state.q, axis=0), state.visits, state.epsilon)

    def action_distribution(
        self, policy: Policy, obs: jax.Array, memory: None = None
    ) -> tuple[TabularPolicy, None]:
        """Return the distribution of actions in one state; there is no memory."""
        return TabularPolicy(jnp.asarray(policy.q)[obs], policy.epsilon), None


SLOTS = (losses.VALUE_LOSS.comparing("squared", "huber", "sloped_squared"),)
"""The functions that can be replaced."""

LEARNER = LearnerEntry(Config, Hyperparams, QLearning, SLOTS, observations="index")
make_train = LEARNER.make_train
