"""Where an update of PPO spends its time: `python -m experiments.benchmarks.profile_update`.

On one core of a CPU.

JAX's profiler says how long every operation of the compiled program took, the program what each is
for. Prints a table in markdown. The shares are those of operations; what XLA needs between them and
what the profiler itself costs is left out.
"""

import argparse
import gzip
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.benchmarks.comparison import Table, number

UPDATES = 5
INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?([\w.-]+) = \S+ ([\w-]+)\(")
PURPOSE = re.compile(r'op_name="([^"]*)"')
CONTAINERS = {"while", "call", "conditional"}
"""Operations whose time is that of what they contain."""


def main() -> int:
    """Compile, run a few updates under the profiler, print where the time went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=8, help="side by side; default: 8")
    options = parser.parse_args()
    from metaevo import devices

    devices.setup(num_devices=1)
    import jax

    from purerl import envs, losses, ppo

    env, env_params = envs.make("CartPole-v1")
    learner = ppo.PPO(ppo.Config(), env, value_loss=losses.clipped_squared)
    others = ppo.Hyperparams(), None, env_params
    keys = jax.random.split(jax.random.key(0), options.agents)
    state = jax.jit(jax.vmap(lambda key: learner.init(key, *others)))(keys)
    update = jax.jit(jax.vmap(lambda state: learner.update(state, *others)[0]))
    compiled = update.lower(state).compile()
    state = jax.block_until_ready(compiled(state))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, create_perfetto_trace=True):
            for _ in range(UPDATES):
                state = jax.block_until_ready(compiled(state))
        (file,) = Path(folder).rglob("perfetto_trace.json.gz")
        events = json.loads(gzip.decompress(file.read_bytes()))
    events = events["traceEvents"] if isinstance(events, dict) else events
    config = learner.config
    gradient_steps = config.update_epochs * config.num_minibatches
    shares: Counter[str] = Counter()
    for name, (_, purpose), duration, times in _operations(compiled.as_text() or "", events):
        group = _group(name, purpose, times / UPDATES, config.num_steps, gradient_steps)
        shares[group] += duration
    total = sum(shares.values())
    table = Table("work", "microseconds an agent and update", "share")
    for group, microseconds in shares.most_common():
        each = microseconds / UPDATES / options.agents
        table.row(group, number(each), f"{100 * microseconds / total:.0f}%")
    return 0


def _operations(
    program: str, events: list[dict[str, Any]]
) -> Iterator[tuple[str, tuple[str, str], int, int]]:
    """Yield name, (opcode, purpose), microseconds and executions of every operation."""
    known = {}
    for line in program.splitlines():
        if match := INSTRUCTION.match(line):
            purpose = PURPOSE.search(line)
            known[match[1]] = match[2], purpose[1] if purpose else ""
    microseconds: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for event in events:
        name = event.get("name")
        if event.get("ph") == "X" and name in known and known[name][0] not in CONTAINERS:
            microseconds[name] += event.get("dur", 0)
            times[name] += 1
    for name, duration in microseconds.items():
        yield name, known[name], duration, times[name]


def _group(name: str, purpose: str, times: float, num_steps: int, gradient_steps: int) -> str:
    """What an operation is for, by the loop that it is in and by the code that it comes from."""
    if times == num_steps:
        if "ActorCritic" in purpose:
            return "acting: the policy's network"
        return "acting: sampling, environment, records"
    if times == gradient_steps:
        if name.startswith(("dot", "ynn")) and "Dense_1" in purpose:
            return "learning: products of the 64 x 64 layers"
        if name.startswith(("dot", "ynn")):
            return "learning: products of the narrow layers, sums over the minibatch"
        if "tanh" in name:
            return "learning: tanh"
        if "gather" in name or "gather" in purpose:
            return "learning: minibatches"
        return "learning: the rest of the losses, clipping, Adam"
    if "sort" in name:
        return "learning: shuffling"
    return "once an update: values, advantages, random numbers"


if __name__ == "__main__":
    sys.exit(main())
