"""Measure throughput: ours against references, in alternation, in steady state.

python experiments/benchmark.py                              # all suites, a few minutes on 2 cores
python experiments/benchmark.py ppo --agents 256 --repeats 5
python experiments/benchmark.py ppo --agents 256 --chunk-sizes 2 4 8 16 32
python experiments/benchmark.py dqn --agents 1 64 --peers
python experiments/benchmark.py q-learning --repeats 5
python experiments/benchmark.py sweep --trials 256
python experiments/benchmark.py evolution --json evolution.json
python experiments/benchmark.py tracking --repeats 5

Every variant runs in a process of its own, with its own XLA flags. All processes of a comparison
compile first; then they measure in turns (A B A B ...) while the others wait, so that whatever else
the machine does falls on all of them. On a busy machine the ratio only says how many CPU seconds a
step costs: what the layout gains by using every core shows on an idle one.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from experiments.benchmarks import scaling, sweeps, tabular, tracking, training
from experiments.benchmarks.processes import Worker, alternate, progress, spread
from experiments.benchmarks.training import Measure

TARGET_AGENTS, TARGET_RATIO = 256, 2.0
FLAT = {"flat vmap": False, "flat vmap, single-threaded": True}
"""Names of the references, and whether they are single-threaded."""
PACKAGES = ("jax", "jaxlib", "flax", "optax", "evosax", "gymnax", "numpy")

# --- What runs in the processes; see also benchmarks/training.py --------------------------------


def evolution_block(config: str, generations: int, training: bool) -> tuple[Measure, dict]:
    """Blocks of an evolution; without training, every candidate costs nothing but ask and tell."""
    from metaevo import devices

    devices.setup()
    import jax
    import jax.numpy as jnp

    from metaevo.config import from_dict, load_yaml
    from metaevo.evolution import Evolution
    from metaevo.experiment import experiment_class, make_parts
    from metaevo.problem import Evaluation
    from metaevo.problems.train_learner import TrainLearner

    class Quadratic:
        """A problem of the same size whose evaluation is one sum."""

        def init(self, key):
            return parts.component.init(key)

        def evaluate(self, key, meta_params):
            squares = jax.tree.map(lambda leaf: jnp.sum(jnp.square(leaf)), meta_params)
            return Evaluation(-jnp.sum(jnp.stack(jax.tree.leaves(squares))), {})

    raw = load_yaml(config)
    settings: Any = from_dict(experiment_class(raw, "value_loss"), raw)
    parts = make_parts(settings)
    tasks = parts.tasks(settings, parts.component.apply)
    problem: Any = Quadratic()
    if training:
        problem = TrainLearner(tasks, settings.hyperparams, parts.component, settings.fitness)
    evolution = Evolution(problem, settings.strategy, settings.evolution, seed=0)
    state = evolution.init()

    def measure(repeat):
        nonlocal state
        frames = evolution.frames(int(state.generation[0]))
        start = time.perf_counter()
        state, _ = evolution.run_block(state, generations)
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "frames": evolution.frames(int(state.generation[0])) - frames}

    layout = f"{evolution.num_devices} devices, chunks of {evolution.chunk_size}"
    return measure, {"layout": layout, "population": evolution.population_size}


WORKERS: dict[str, Callable[..., tuple[Measure, dict[str, Any]]]] = {
    **training.WORKERS,
    **tabular.WORKERS,
    **sweeps.WORKERS,
    **scaling.WORKERS,
    "evolution_block": evolution_block,
}


def work(name: str, arguments: dict[str, Any]) -> None:
    """Compile, then measure once for every line on stdin; answers are lines of JSON on stdout."""
    measure, about = WORKERS[name](**arguments)
    start = time.perf_counter()
    measure(0)
    first = time.perf_counter() - start
    print(json.dumps({**about, "first_seconds": first}), flush=True)
    for repeat, _ in enumerate(sys.stdin, start=1):
        print(json.dumps(measure(repeat)), flush=True)


# --- The suites -----------------------------------------------------------------------------------


def suite_ppo(options: argparse.Namespace) -> dict[str, Any]:
    """PPO CartPole-v1 at CleanRL's settings, against one flat vmap of the same function."""
    rows = _compare("ppo", options)
    return {"rows": rows, "work": "PPO, CartPole-v1, 4 envs x 128 steps, 4 epochs x 4 minibatches"}


def suite_dqn(options: argparse.Namespace) -> dict[str, Any]:
    """DQN CartPole-v1 at PureJaxRL's settings, against one flat vmap, with --peers also rejax."""
    peers = []
    if options.peers:
        if importlib.util.find_spec("rejax"):
            peers = ["rejax"]
        else:
            print("rejax is not installed (pip install rejax): left out")
    work = "DQN, CartPole-v1, 10 envs, a minibatch of 128 every 10 steps"
    return {"rows": _compare("dqn", options, peers), "work": work}


def _compare(
    learner: str, options: argparse.Namespace, peers: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Measure a learner in our layout, as one flat vmap and as the peers have it; print a table."""
    batch, rows = training.frames_per_update(learner), []
    own: dict[str, Any] = {"learner": learner}
    head = f"{'steps/s: min':>12} {'median':>9} {'max':>9} {'per CPU s':>9} {'first call':>10}"
    print(f"{'agents':>6}  {'variant':30} {head}  layout")
    for agents in options.agents:
        updates = max(2, round(options.frames / (agents * batch)))
        shape = {"agents": agents, "updates": updates}
        with ExitStack() as stack:

            def start(name: str, stack: ExitStack = stack, **arguments: Any) -> Worker:
                return stack.enter_context(Worker(name, **arguments))

            progress(f"{agents} agents x {updates} updates: compiling")
            workers = {"ours": start("ours", chunk_size=None, **own, **shape)}
            for size in options.chunk_sizes:
                workers[f"ours, chunks of {size}"] = start("ours", chunk_size=size, **own, **shape)
            workers |= {
                name: start(
                    "flat", single_threaded=single, default_flags=not single, **own, **shape
                )
                for name, single in FLAT.items()
            }
            workers |= {name: start(name, default_flags=True, **shape) for name in peers}
            steps = agents * updates * batch
            rates: dict[str, list[float]] = {name: [] for name in workers}
            per_cpu: dict[str, list[float]] = {name: [] for name in workers}
            for name, result in alternate(workers, options.repeats):
                rates[name].append(steps / result["seconds"])
                per_cpu[name].append(steps / result["cpu_seconds"])
                progress(f"{agents} agents, {name}: {rates[name][-1]:,.0f} steps/s")
            progress("")
            for name, worker in workers.items():
                row = {"agents": agents, "variant": name, **spread(rates[name]), **worker.about}
                row |= {"steps_per_second": rates[name], "steps_per_cpu_second": per_cpu[name]}
                rows.append(row)
                numbers = f"{row['min']:12,.0f} {row['median']:9,.0f} {row['max']:9,.0f}"
                numbers += f" {statistics.median(per_cpu[name]):9,.0f}"
                numbers += f" {row['first_seconds']:9.1f}s"
                print(f"{agents:6}  {name:30} {numbers}  {row['layout']}")
            for reference in (*FLAT, *peers):
                # Neighbours in time are compared: what disturbs one is likely to disturb both.
                ratios = [a / b for a, b in zip(rates["ours"], rates[reference], strict=True)]
                row = {"agents": agents, "variant": f"ratio to {reference}", **spread(ratios)}
                rows.append(row)
                target = ""
                if (learner, agents, reference) == ("ppo", TARGET_AGENTS, "flat vmap"):
                    reached = "reached" if row["median"] >= TARGET_RATIO else "MISSED"
                    target = f"  (target {TARGET_RATIO}: {reached})"
                print(f"{agents:6}  ours / {reference:23} {row['min']:12.2f} {row['median']:9.2f} "
                      f"{row['max']:9.2f}{target}", flush=True)  # fmt: skip
    return rows


def suite_q_learning(options: argparse.Namespace) -> dict[str, Any]:
    """Tabular Q-learning in GridWorld, against a plain loop in Python and NumPy."""
    loop_steps = min(tabular.NUMPY_STEPS, options.agent_steps or tabular.NUMPY_STEPS)
    sizes = {n: (options.agent_steps or steps) for n, (steps, _) in tabular.CASES.items()}
    names = {f"{n:,} agent{'s' * (n > 1)} x {steps:,}": n for n, steps in sizes.items()}
    total = {name: n * sizes[n] for name, n in names.items()} | {"NumPy loop": loop_steps}
    rows = []
    with ExitStack() as stack:
        progress("q-learning: compiling")
        workers = {"NumPy loop": stack.enter_context(Worker("q_numpy", steps=loop_steps))}
        for name, n in names.items():
            worker = Worker("q_ours", agents=n, steps=sizes[n])
            workers[name] = stack.enter_context(worker)
        rates: dict[str, list[float]] = {name: [] for name in workers}
        per_cpu: dict[str, list[float]] = {name: [] for name in workers}
        for name, result in alternate(workers, options.repeats):
            rates[name].append(total[name] / result["seconds"])
            per_cpu[name].append(total[name] / result["cpu_seconds"])
            progress(f"{name}: {rates[name][-1]:,.0f} steps/s")
        progress("")
        head = f"{'steps/s: min':>12} {'median':>11} {'max':>11} {'per CPU s':>11}"
        print(f"{'variant':24} {head}  layout")
        for name, worker in workers.items():
            row = {"variant": name, **spread(rates[name]), **worker.about}
            row |= {"steps_per_second": rates[name], "steps_per_cpu_second": per_cpu[name]}
            rows.append(row)
            print(f"{name:24} {row['min']:12,.0f} {row['median']:11,.0f} {row['max']:11,.0f} "
                  f"{statistics.median(per_cpu[name]):11,.0f}  {row['layout']}")  # fmt: skip
    for name, n in names.items():
        ratios = [a / b for a, b in zip(rates[name], rates["NumPy loop"], strict=True)]
        row = {"variant": f"ratio of {name} to the NumPy loop", **spread(ratios)}
        rows.append(row)
        goal = tabular.CASES[n][1]
        reached = "reached" if row["median"] >= goal else "MISSED"
        print(f"{name + ' / NumPy':24} {row['min']:12.1f} {row['median']:11.1f} {row['max']:11.1f}"
              f"  (target {goal:.0f}: {reached})", flush=True)  # fmt: skip
    return {"rows": rows, "work": "Q-learning, GridWorld 8 x 8"}


def suite_evolution(options: argparse.Namespace) -> dict[str, Any]:
    """Value-loss evolution at the quick preset's shape, and what all but training costs."""
    config = Path(__file__).resolve().parent.parent / "configs/evolve_value_loss/quick.yaml"
    variants = {
        "evolution": {"generations": options.generations, "training": True},
        "ask and tell": {"generations": 64, "training": False},
        "ask, tell and host": {"generations": 1, "training": False},
    }
    with ExitStack() as stack:
        progress("evolution: compiling")
        workers = {
            name: stack.enter_context(Worker("evolution_block", config=str(config), **arguments))
            for name, arguments in variants.items()
        }
        results: dict[str, list[dict[str, float]]] = {name: [] for name in workers}
        for name, result in alternate(workers, options.repeats):
            results[name].append(result)
            progress(f"{name}: {result['seconds']:.3f} s")
        progress("")
        about = workers["evolution"].about
    print(f"{about['population']} candidates on {about['layout']}; first call "
          f"{about['first_seconds']:.1f} s")  # fmt: skip
    rows = []
    frames = spread([each["frames"] / each["seconds"] for each in results["evolution"]])
    rows.append({"variant": "frames per second", **frames})
    for name, arguments in variants.items():
        milliseconds = [1e3 * each["seconds"] / arguments["generations"] for each in results[name]]
        rows.append({"variant": f"{name}: ms a generation", **spread(milliseconds)})
    print(f"{'':35} {'min':>12} {'median':>9} {'max':>9}")
    for row in rows:
        print(f"{row['variant']:35} {row['min']:12,.2f} {row['median']:9,.2f} {row['max']:9,.2f}")
    return {"rows": rows, **about}


SUITES: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "ppo": suite_ppo,
    "dqn": suite_dqn,
    "q-learning": suite_q_learning,
    "evolution": suite_evolution,
    "sweep": sweeps.suite,
    "tracking": tracking.suite,
    "scaling": scaling.suite,
}


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(": ")[2] if names else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": model,
        "cores": cores,
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
    }


def main() -> int:
    """Run the suites."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = ", ".join(SUITES)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{known}; default: all")
    parser.add_argument("--agents", type=_positive, nargs="+", default=[1, 64, 256], metavar="N")
    parser.add_argument("--repeats", type=_positive, default=3, metavar="N", help="default: 3")
    numbers = {
        "--frames": (2**20, "environment steps of one measurement"),
        "--generations": (4, "of one measurement (suite evolution)"),
        "--trials": (256, "of one measurement (suite sweep)"),
    }
    for flag, (default, text) in numbers.items():
        text = f"{text}; default: {default}"
        parser.add_argument(flag, type=_positive, default=default, metavar="N", help=text)
    text = "of an agent (suites q-learning, tracking); default: 100,000, alone 1,000,000"
    parser.add_argument("--agent-steps", type=_positive, metavar="N", help=text)
    text = "also measure these (suites ppo, dqn)"
    parser.add_argument("--chunk-sizes", type=_positive, nargs="+", default=[], help=text)
    parser.add_argument("--peers", action="store_true", help="suite dqn: also rejax, if installed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results there")
    options = parser.parse_args()
    if unknown := set(options.suites) - set(SUITES):
        parser.error(f"unknown suite {', '.join(sorted(unknown))}; known: {known}")
    if options.generations > 64:
        parser.error(f"--generations {options.generations}: at most 64 fit into a block")
    if options.json is not None and not options.json.resolve().parent.is_dir():
        parser.error(f"--json {options.json}: its directory does not exist")
    results: dict[str, Any] = {"machine": machine()}
    print("  ".join(f"{key} {value}" for key, value in results["machine"].items()))
    for name in options.suites or SUITES:
        print(f"\n{name}: {SUITES[name].__doc__}", flush=True)
        results[name] = SUITES[name](options)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} must be at least 1")
    return value


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2], json.loads(sys.argv[3]))
    else:
        sys.exit(main())
