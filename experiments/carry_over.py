"""What makes a rule carry over: evolve rules of several sizes on 1 to 16 tasks, judge them anew.

python experiments/carry_over.py                       # all cells; can be stopped and goes on
timeout -s INT 20m python experiments/carry_over.py    # in pieces
python experiments/carry_over.py --slot policy_loss --sizes 2 36 --tasks 1 4 16 --seeds 0 1
python experiments/carry_over.py --json experiments/carry_over_cells.json # goes on with its cells

A cell is a size (the evolved numbers of a rule), a number of training tasks and a seed; all cells
use the same frames. A cell's rule is scored on its training tasks and on the tasks of the benchmark
of generality whose environments no cell trains on, as the benchmark does it: the learning rate is
tuned on each task, 0 is random play and 1 is tuned PPO. Every seed shuffles the pool of training
tasks (experiments/carry_over.yaml), and a cell with more tasks includes the tasks of a cell with
fewer.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from metaevo.evolution import devices

if __name__ == "__main__":  # before anything starts JAX
    devices.setup()

import jax
import numpy as np

import metaevo
from experiments.benchmarks.machine import save
from experiments.benchmarks.tables import Table
from metaevo.comparison.generality.judge import GeneralityResult, Job, judge
from metaevo.comparison.generality.measure import rates_of
from metaevo.comparison.generality.references import measure_references
from metaevo.comparison.generality.rules import rule_of
from metaevo.comparison.generality.tasks import CORE, Benchmark, benchmark, read_references
from metaevo.components.formula import HAND_WRITTEN
from metaevo.config import exit_on_config_error, from_dict, load_yaml, to_dict
from metaevo.config.files import write_json_atomic
from metaevo.config.plain import PlainDict
from metaevo.reports import plots
from metaevo.runs.run_directory import commit

POOL = Path(__file__).with_suffix(".yaml")
POPULATION, DRAWN, GENERATIONS = 64, 2, 24
"""A generation trains 64 candidates twice: on two tasks, or with two seeds on the only one."""

_STEP = "exp(rate{0} + decay{0} * progress{1}) * (a{0} * gradient + b{0} * mean_9 + c{0} * mean_99)"


def _formula(expression: str, constants: dict[str, float]) -> PlainDict:
    formula = {"slot": "make_optimizer", "expression": expression, "constants": constants}
    return {"evolve": "formula", "component": formula}


def _adam(suffix: str, *more: str) -> dict[str, float]:
    """Return the constants with which `_STEP` is Adam's."""
    names = ("rate", "decay", "a", "b", "c", *more)
    return {f"{name}{suffix}": float(name == "b") for name in names}


def _network(hidden_size: int) -> PlainDict:
    return {"evolve": "optimizer", "component": {"hidden_size": hidden_size, "start": "adam"}}


def _drift(hidden_size: int) -> PlainDict:
    return {"evolve": "drift", "component": {"hidden_size": hidden_size, "start": "clip"}}


RULES: dict[str, dict[int, PlainDict]] = {
    "make_optimizer": {
        5: _formula(_STEP.format("", ""), _adam("")),
        12: _formula(
            f"where(policy > 0, {_STEP.format('_actor', ' + w_actor * size')}, "
            f"{_STEP.format('_critic', ' + w_critic * size')})",
            _adam("_actor", "w") | _adam("_critic", "w"),
        ),
        33: _network(2),
        111: _network(8),
        1211: {"evolve": "open", "strategy": {"sigma": 0.03, "learning_rate": 0.03}},
    },
    "policy_loss": {
        2: {"evolve": "formula", "component": to_dict(HAND_WRITTEN["policy_loss"]["dpo"])},
        36: _drift(4),
        1152: _drift(128),
    },
}
"""By slot and number of evolved numbers. All begin as a hand-written rule, but for OPEN's random
weights, which has its authors' strategy; 12: an Adam for the actor and one for the critic."""
HYPERPARAMS = {"learning_rate": 5e-3}
"""Of evolution; the scores are at learning rates that are tuned on each task."""


@dataclass(frozen=True)
class Cell:
    """One evolution of the grid."""

    slot: str
    size: int
    tasks: int
    seed: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.slot}-{self.size}-{self.tasks}-{self.seed}"

    def training_tasks(self, pool: Benchmark) -> list[str]:
        """Return the names of the tasks that this cell's rule is evolved on."""
        order = np.random.default_rng(self.seed).permutation(list(pool.tasks))
        return [str(name) for name in order[: self.tasks]]

    def evolve(self, pool: Benchmark, run_dir: Path) -> None:
        """Evolve the rule, or continue with it; a finished one is only read."""
        rule = {"strategy": {}, **RULES[self.slot][self.size]}
        strategy = {"algorithm": "Open_ES", "population_size": POPULATION, "sigma": 0.1,
                    "learning_rate": 0.05, **rule.pop("strategy")}  # fmt: skip
        tasks: PlainDict = {}
        for name in self.training_tasks(pool):
            settings = pool.settings(name)
            tasks[name] = {**settings["task"], "train": settings["train"],
                           "hyperparams": settings["hyperparams"]}  # fmt: skip
        several = self.tasks >= DRAWN
        rule |= {"tasks_per_generation": DRAWN} if several else {}
        problem = metaevo.LearnerProblem(
            "ppo", **rule, tasks=tasks, hyperparams=HYPERPARAMS, evaluation={"seeds": 0}
        )
        metaevo.evolve(
            problem,
            strategy=strategy,
            evolution={
                "generations": GENERATIONS,
                "seeds_per_candidate": 1 if several else DRAWN,
                "across_tasks": "rank" if several else "mean",
                "validation_every": GENERATIONS,
                "validation_seeds": 8,
            },
            run={"seed": self.seed},
            run_dir=run_dir,
            resume=(run_dir / "config.yaml").exists(),
        )


def unseen_tasks(pool: Benchmark) -> list[str]:
    """Return the tasks of the benchmark's score on whose environments no cell trains."""
    envs, found = {each.env for each in pool.tasks.values()}, benchmark()
    return [name for name in found.of_version(CORE) if found.tasks[name].env not in envs]


def measure(cell: Cell, pool: Benchmark, folder: Path) -> PlainDict:
    """Evolve a cell's rule and score it; an interrupted measurement keeps its finished parts.

    Returns:
        the cell, and by `training` and `unseen`: the interquartile mean, its 95% interval, and the
        normalised scores [agents] of every task.
    """
    kept = folder / f"{cell.name}.json"
    if kept.exists():
        found: PlainDict = json.loads(kept.read_text())
        return found
    run_dir = folder / cell.name
    cell.evolve(pool, run_dir)
    rule = rule_of(str(run_dir))._replace(seen=())
    own = json.loads((folder / "references.json").read_text())["tasks"]
    found = {"slot": cell.slot, "size": cell.size, "tasks": cell.tasks, "seed": cell.seed}
    for name, of, tasks, references in (
        ("training", pool, cell.training_tasks(pool), own),
        ("unseen", benchmark(), unseen_tasks(pool), read_references()["tasks"]),
    ):
        (run_dir / name).mkdir(exist_ok=True)
        result = judge(Job(of, tasks, rule, rates_of(of, rule, None), references), run_dir / name)
        found[name] = _scores(result)
    found["commit"] = commit()
    write_json_atomic(kept, found)
    return found


def finished(path: Path | None) -> dict[Cell, PlainDict]:
    """Return the cells of a file of results, which may not be there yet."""
    if path is None or not path.exists():
        return {}
    cells = json.loads(path.read_text())["cells"]
    names = [each.name for each in fields(Cell)]
    return {Cell(**{name: each[name] for name in names}): each for each in cells}


def _scores(result: GeneralityResult) -> PlainDict:
    assert result.score is not None
    return {
        "score": result.score.value,
        "interval": result.score.interval,
        "tasks": {each.task: each.normalised for each in result.tasks},
    }


def summary(cells: Sequence[PlainDict]) -> list[PlainDict]:
    """Return a row for each size and number of tasks: the scores of its seeds and their mean."""
    groups: dict[tuple[str, int, int], list[PlainDict]] = {}
    for each in cells:
        groups.setdefault((each["slot"], each["size"], each["tasks"]), []).append(each)
    rows = []
    for (slot, size, tasks), members in sorted(groups.items()):
        row: PlainDict = {"slot": slot, "size": size, "tasks": tasks, "seeds": len(members)}
        for part in ("training", "unseen"):
            scores = [each[part]["score"] for each in members]
            row[part] = {"mean": float(np.mean(scores)), "of seeds": scores}
        rows.append(row)
    return rows


def show(rows: Sequence[PlainDict]) -> Table:
    """Print the rows as a table, and return it."""
    table = Table("numbers", "training tasks", "score on them", "unseen tasks")
    for row in rows:
        cells = []
        for part in ("training", "unseen"):
            seeds = ", ".join(f"{each:.2f}" for each in row[part]["of seeds"])
            cells.append(f"{row[part]['mean']:.2f} ({seeds})")
        table.row(row["size"], row["tasks"], *cells)
    return table


def draw(rows: Sequence[PlainDict], path: Path) -> None:
    """Draw the scores against the number of training tasks, a line for each size."""
    figure = plots.new_figure(3.6)
    panels = figure.subplots(1, 2, sharey=True)
    sizes = sorted({row["size"] for row in rows})
    ticks = sorted({row["tasks"] for row in rows})
    for axes, part, title in zip(
        panels, ("training", "unseen"), ("tasks it was evolved on", "unseen tasks"), strict=True
    ):
        label = "" if part == "unseen" else "score: 0 random play, 1 tuned PPO"
        plots.style_axes(axes, "training tasks", label)
        for index, size in enumerate(sizes):
            of_size = [row for row in rows if row["size"] == size]
            x = [row["tasks"] for row in of_size]
            axes.plot(x, [row[part]["mean"] for row in of_size], color=f"C{index}", marker="o",
                      label=f"{size:,} numbers")  # fmt: skip
            for row in of_size:
                y = row[part]["of seeds"]
                axes.scatter([row["tasks"]] * len(y), y, s=12, color=f"C{index}", alpha=0.5)
        axes.axhline(1.0, color=plots.GREY, linewidth=1)
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [str(each) for each in ticks])
        axes.set_title(title)
    plots.add_legend(figure, *panels)
    plots.save_figure(figure, path)


def _grid(args: argparse.Namespace) -> Iterator[Cell]:
    """Yield the cells, seed by seed."""
    for seed in args.seeds:
        for tasks in args.tasks:
            for size in args.sizes or RULES[args.slot]:
                yield Cell(args.slot, size, tasks, seed)


@exit_on_config_error()
def main(argv: Sequence[str]) -> int:
    """Measure the cells that are not finished yet, and write the table after each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slot", choices=RULES, default="make_optimizer")
    parser.add_argument("--sizes", type=int, nargs="+", help="by default all of the slot")
    parser.add_argument("--tasks", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--folder", type=Path, default=Path("runs/carry_over"))
    parser.add_argument("--json", type=Path, help="all finished cells, read and written")
    parser.add_argument("--figure", type=Path, help="PNG file")
    parser.add_argument("--save", type=Path, help="for a page: docs/results/carry_over.json")
    args = parser.parse_args(argv)
    pool = from_dict(Benchmark, load_yaml(POOL))
    if unknown := set(args.sizes or ()) - set(RULES[args.slot]):
        parser.error(f"--sizes: {sorted(unknown)} must be of {sorted(RULES[args.slot])}")
    if not all(0 < each <= len(pool.tasks) for each in args.tasks):
        parser.error(f"--tasks: must be from 1 to {len(pool.tasks)}")
    (args.folder / "tasks").mkdir(parents=True, exist_ok=True)
    references = args.folder / "references.json"
    if not references.exists():
        measure_references(pool, args.folder, references, lambda: None)
    known = finished(args.json)
    cells: list[PlainDict] = []
    for cell in _grid(args):
        print(f"== {cell.name}", file=sys.stderr, flush=True)
        if cell not in known:
            known[cell] = measure(cell, pool, args.folder)
            jax.clear_caches()  # hundreds of programs exceed the mappings that a process may have
        cells.append(known[cell])
        if args.json:
            write_json_atomic(args.json, {"cells": list(known.values())})
        if args.figure:
            draw(summary(cells), args.figure)
    table = show(summary(cells))
    if args.save:
        save(args.save, {"scores": table}, "in brackets: the evolutions of each seed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
