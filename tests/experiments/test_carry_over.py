"""The grid of experiments/carry_over.py: its rules, its tasks, and its summary."""

import jax
import numpy as np
import pytest

from experiments import carry_over
from experiments.carry_over import POOL, RULES, Cell
from metaevo.comparison.generality.tasks import FAMILIES, Benchmark, benchmark
from metaevo.components.rule import INPUTS
from metaevo.config import from_dict, load_yaml
from metaevo.studies.settings import make_experiment
from tests.metaevo.evolving import settings_of

SIZES = [(slot, size) for slot, rules in RULES.items() for size in rules]


@pytest.fixture(scope="module")
def pool():
    return from_dict(Benchmark, load_yaml(POOL))


def part_of(slot, size):
    rule = {key: value for key, value in RULES[slot][size].items() if key != "strategy"}
    raw = {"learner": "ppo", **rule}
    settings = settings_of(raw)
    (part,) = make_experiment(settings).evolved.parts.values()
    return part


@pytest.mark.parametrize(("slot", "size"), SIZES)
def test_a_rule_has_as_many_numbers_as_its_size(slot, size):
    part = part_of(slot, size)
    numbers = jax.tree.leaves(jax.eval_shape(part.component.init, jax.random.key(0)))
    assert sum(each.size for each in numbers) == size
    assert part.slot.name == slot


@pytest.mark.parametrize("size", [5, 12])
def test_the_formulas_begin_as_adam(size):
    formula = part_of("make_optimizer", size).config
    draws = np.random.default_rng(0).normal(size=(len(INPUTS["make_optimizer"]), 20))
    inputs = dict(zip(INPUTS["make_optimizer"], draws, strict=True))
    inputs["policy"] = np.arange(20) % 2.0
    step = formula.parsed.evaluate(inputs | formula.constants)
    np.testing.assert_allclose(step, inputs["mean_9"], rtol=1e-6)


def test_cells_of_a_seed_share_their_tasks(pool):
    tasks = [Cell("make_optimizer", 5, count, seed=1).training_tasks(pool) for count in (1, 4, 16)]
    assert tasks[0] == tasks[2][:1]
    assert tasks[1] == tasks[2][:4]
    assert sorted(tasks[2]) == sorted(pool.tasks)
    assert tasks[2] != Cell("make_optimizer", 5, 16, seed=2).training_tasks(pool)
    assert tasks[2] == Cell("policy_loss", 2, 16, seed=1).training_tasks(pool)


def test_no_cell_trains_in_an_environment_of_the_unseen_tasks(pool):
    unseen = carry_over.unseen_tasks(pool)
    specs = [benchmark().tasks[name] for name in unseen]
    assert len(unseen) >= 10
    assert {each.family for each in specs} == set(FAMILIES)
    assert not {each.env for each in specs} & {each.env for each in pool.tasks.values()}


def test_the_summary_has_the_mean_over_seeds(tmp_path):
    cells = [
        {"slot": "make_optimizer", "size": size, "tasks": tasks, "seed": seed,
         "training": {"score": 1.0 + seed}, "unseen": {"score": size / 10}}
        for size in (5, 33) for tasks in (1, 4) for seed in (0, 1)
    ]  # fmt: skip
    rows = carry_over.summary(cells)
    assert [(row["size"], row["tasks"], row["seeds"]) for row in rows] == [
        (5, 1, 2), (5, 4, 2), (33, 1, 2), (33, 4, 2)
    ]  # fmt: skip
    assert rows[0]["training"] == {"mean": 1.5, "of seeds": [1.0, 2.0]}
    assert rows[3]["unseen"]["mean"] == pytest.approx(3.3)
    carry_over.draw(rows, tmp_path / "scores.png")
    assert (tmp_path / "scores.png").read_bytes().startswith(b"\x89PNG")


def test_cells_on_record_are_not_measured_again(tmp_path, monkeypatch):
    measured = []

    def measure(cell, pool, folder):
        measured.append(cell)
        scores = {"score": float(cell.tasks)}
        return {**vars(cell), "training": scores, "unseen": scores}

    monkeypatch.setattr(carry_over, "measure", measure)
    (tmp_path / "references.json").write_text("{}")
    json = ["--folder", str(tmp_path), "--json", str(tmp_path / "cells.json")]
    carry_over.main(["--sizes", "5", "--tasks", "1", "--seeds", "0", *json])
    carry_over.main(["--sizes", "5", "--tasks", "1", "4", "--seeds", "0", *json])
    assert [each.tasks for each in measured] == [1, 4]
    assert list(carry_over.finished(tmp_path / "cells.json")) == measured
