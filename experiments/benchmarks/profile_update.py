"""The time of an update of PPO by its parts: `python -m experiments.benchmarks.profile_update`.

On one core of a CPU. JAX's profiler measures every operation of the compiled program, and the
program contains the purpose of each operation. The profiler adds a microsecond or two to each
operation, so the average of the shortest operation is subtracted from all of them. With fewer than
eight agents, operations are too short for that, and XLA leaves out the purpose of some.
"""

import gzip
import json
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from experiments.benchmarks.comparison import Table, number
from metaevo.config import exit_on_config_error
from metaevo.config.command_line import Parser

UPDATES = 5
REPEATS = 7
"""Of the updates without the profiler, of which the fastest counts."""
INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?([\w.-]+) = \S+ ([\w-]+)\(")
PURPOSE = re.compile(r'op_name="([^"]*)"')
CONTAINERS = {"while", "call", "conditional"}
"""Operations whose time is that of what they contain."""


@exit_on_config_error()
def main() -> int:
    """Compile, run a few updates under the profiler, print where the time went."""
    parser = Parser("profile_update", __doc__)
    parser.add_argument("--agents", type=int, default=8, help="side by side; default: 8")
    options = parser.parse_args()
    from metaevo.evolution import devices

    devices.setup(num_devices=1)
    import jax

    from purerl import envs, ppo
    from purerl.parts import losses

    # A kept program has the names of what it was first compiled from.
    jax.config.update("jax_enable_compilation_cache", False)

    env, env_params = envs.make("CartPole-v1")
    learner = ppo.PPO(ppo.Config(), env, value_loss=losses.clipped_squared)
    others = ppo.Hyperparams(), None, env_params
    keys = jax.random.split(jax.random.key(0), options.agents)
    state = jax.jit(jax.vmap(lambda key: learner.init(key, *others)))(keys)

    def updates(state):
        return jax.lax.scan(
            lambda state, _: (learner.update(state, *others)[0], None), state, length=UPDATES
        )[0]

    compiled = jax.jit(jax.vmap(updates)).lower(state).compile()
    undisturbed = min(_microseconds(lambda: compiled(state)) for _ in range(REPEATS))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, create_perfetto_trace=True):
            jax.block_until_ready(compiled(state))
        (file,) = Path(folder).rglob("perfetto_trace.json.gz")
        events = json.loads(gzip.decompress(file.read_bytes()))
    events = events["traceEvents"] if isinstance(events, dict) else events
    config = learner.config
    gradient_steps = config.update_epochs * config.num_minibatches
    operations = list(_operations(compiled.as_text() or "", events))
    overhead = min(  # of those that ran often enough for an average
        duration / times for *_, duration, times in operations if times >= UPDATES * gradient_steps
    )
    shares: defaultdict[str, float] = defaultdict(float)
    for name, (_, purpose), duration, times in operations:
        group = _group(name, purpose, times / UPDATES, config.num_steps, gradient_steps)
        shares[group] += duration - overhead * times
    total = sum(shares.values())
    table = Table("work", "microseconds an agent and update", "share")
    each = UPDATES * options.agents
    for group, microseconds in sorted(shares.items(), key=lambda share: -share[1]):
        table.row(group, number(microseconds / each), f"{100 * microseconds / total:.0f}%")
    print(
        f"\ntogether {number(total / each)} microseconds an agent and update, without the profiler "
        f"{number(undisturbed / each)}; {overhead:.2f} taken off each operation"
    )
    return 0


def _microseconds(run: Callable[[], Any]) -> float:
    import jax

    start = time.perf_counter()
    jax.block_until_ready(run())
    return 1e6 * (time.perf_counter() - start)


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
            return "learning: other products of narrow layers, sums over the minibatch"
        if "tanh" in purpose:
            return "learning: values of tanh, and in them the first layers"
        if "gather" in name or "gather" in purpose:
            return "learning: minibatches"
        return "learning: the rest of the losses, clipping, Adam"
    if "sort" in name:
        return "learning: shuffling"
    return "once an update: values, advantages, random numbers"


if __name__ == "__main__":
    sys.exit(main())
