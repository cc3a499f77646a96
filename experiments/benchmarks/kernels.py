"""Compare our kernels for a GPU with XLA's: speed, and the ratio of policies in PPO's first step.

python -m experiments.benchmarks.kernels --save kernels.json

Each program runs with the kernels of `purerl.fast` and without, in processes that measure in turns.
Before the first gradient step the ratio of the learning and the acting policy is 1, apart from
rounding, since rollouts and minibatches are computed by different kernels. The last row is a
training whose keys are committed to the CPU, with the kernels that it selects itself. `--tiny`
tries the script on any machine: a CPU interprets the kernels, and the speeds mean nothing.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from experiments.benchmarks import evolution
from experiments.benchmarks.comparison import peak_mib, rates, spread
from experiments.benchmarks.machine import save
from experiments.benchmarks.processes import Labels, Variant, measure, own
from experiments.benchmarks.tables import Table
from experiments.benchmarks.work import Clock, Made, timed
from metaevo.config import exit_on_config_error
from metaevo.config.command_line import Parser

PROGRAMS = (
    ("ppo, 64 envs, first minibatch", 64),
    ("ppo", 64),
    ("ppo", 2048),
    ("ppo, recurrent", 2048),
    ("evolution, blog", 512),
)
"""Names, and numbers of agents or candidates."""
COMMITTED = "ppo, keys on the CPU"
REPEATS = 3
COLUMNS = (
    "program", "agents", "kernels", "M frames/s: median [min, max]", "mean abs(log ratio)",
    "compile, s", "peak MiB", "error",
)  # fmt: skip


@exit_on_config_error()
def main(argv: Sequence[str] | None = None) -> int:
    """Measure the programs; return 1 if a process failed."""
    parser = Parser("kernels", __doc__)
    parser.prog = "experiments.benchmarks.kernels"
    parser.add_argument("--tiny", action="store_true", help="two agents each, for two updates")
    text = "write the table there, for a page"
    parser.add_argument("--save", type=Path, metavar="FILE", help=text)
    args = parser.parse_args(argv)
    measured, failed = measure(variants(args), 1 if args.tiny else REPEATS, at_once=not args.tiny)
    table = Table(*COLUMNS)
    for labels, (about, samples) in measured.items():
        speed = spread(rate / 1e6 for rate in rates(samples, "seconds") if rate)
        known = about.get("log_ratio"), about["compile_seconds"], peak_mib(samples)
        table.row(*labels, speed, *known, about.get("error", ""))
    if args.save is not None:
        save(args.save, {"With kernels and without": table})
    return int(bool(failed))


def variants(args: argparse.Namespace) -> dict[Labels, Variant]:
    """Return the programs with kernels on and off, and the last row."""
    cases = [(*program, kernels) for program in PROGRAMS for kernels in ("on", "off")]
    return {
        (name, agents, kernels): own(
            "kernels:program", name=name, agents=2 if args.tiny else agents, kernels=kernels,
            tiny=args.tiny,
        )
        for name, agents, kernels in [*cases, (COMMITTED, 64, "chosen")]
    }  # fmt: skip


# --- In the worker's process ----------------------------------------------------------------------


def program(name: str, agents: int, kernels: str, tiny: bool) -> Made:
    """Compile a program for this machine; the amount is in environment steps."""
    from purerl.fast import kernels as switch
    from purerl.fast import perceptron

    if kernels != "chosen":
        mock.patch.object(switch, "has_triton", return_value=kernels == "on").start()
    if tiny:  # kernels are for many agents
        mock.patch.object(perceptron, "MANY", agents).start()
    if name.startswith("evolution"):
        return evolution.value_loss("blog", 1, agents, 512 if tiny else 65_536)

    from metaevo.evolution import devices

    devices.setup(1)
    import jax
    import jax.numpy as jnp

    from purerl import envs, ppo
    from purerl.parts import losses, minibatches

    env, env_params = envs.make("CartPole-v1")
    num_envs = 64 if "64 envs" in name and not tiny else 4
    config = ppo.Config(
        (2 if tiny else 30) * num_envs * 128,
        num_envs=num_envs,
        recurrent_size=32 if "recurrent" in name else 0,
    )
    learner = ppo.PPO(config, env, value_loss=losses.clipped_squared)
    hyperparams = ppo.Hyperparams()

    def keys(seed):
        found = jax.random.split(jax.random.key(seed), agents)
        return jax.device_put(found, jax.devices("cpu")[0]) if name == COMMITTED else found

    def log_ratio(key):
        init_key, order_key = jax.random.split(key)
        state = learner.init(init_key, hyperparams, None, env_params)
        state, transitions, _ = learner.collect(state, env_params)
        state, batch = learner.make_batch(state, transitions, hyperparams)
        counts = config.batch_size, config.num_minibatches, config.update_epochs
        rows = minibatches.order(order_key, *counts, length=1)[0]
        first = jax.tree.map(lambda leaf: leaf[rows], batch)
        policy, _ = learner.replay(state.params, first)
        before, action = first.transition.log_prob, first.transition.action
        return jnp.mean(jnp.abs(policy.log_prob(action) - before))

    def train(key):
        result = learner.train(key, hyperparams, None, env_params)
        return result.episodes, result.metrics, learner.policy(result.state)

    is_ratio = "minibatch" in name
    compiled = jax.jit(jax.vmap(log_ratio if is_ratio else train))
    about = {"log_ratio": float(jnp.mean(compiled(keys(0))))} if is_ratio else {}
    updates = 1 if is_ratio else config.num_updates
    try:
        jax.block_until_ready(compiled(keys(0)))
    except Exception as error:  # the answer of the last row
        if name != COMMITTED:
            raise
        return lambda _: Clock().sample(0.0), {"error": str(error).partition("\n")[0][:80]}
    return timed(compiled, keys, agents * updates * config.frames_per_update), about


if __name__ == "__main__":
    sys.exit(main())
