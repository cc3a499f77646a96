"""Do verdicts hold on repetition? Hundreds of judgements, redrawn from a bank of trained agents.

python -m experiments.benchmarks.coverage --bank FILE [--redraws 300] [--save FILE]

The bank has the scores of tabular Q-learning on two GridWorlds with an evolved value loss (the
zoo's q-learning-loss) and three hand-written ones, for 1,024 settings and 128 seeds. It is trained
first if the file does not exist (6 CPU minutes). A judgement draws its seeds and its settings from
it with replacement, or takes a block of the Sobol sequence as its settings, as a real one does. The
true difference is the mean over all redraws of the winners' difference. Null contenders are squared
error with other seeds, and perhaps other settings: every verdict on them is false.
"""

import argparse
import itertools
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import yaml

from metaevo import devices

if __name__ == "__main__":
    devices.setup(1)  # before purerl.envs starts JAX

import metaevo
from experiments.benchmarks.tables import Table, save
from metaevo import Budget, Scores, statistics
from purerl import envs, q_learning
from purerl.parts import losses

TASKS = {"size": 8, "slip_probability": 0.2}, {"size": 6, "slip_probability": 0.4}
SETTINGS, SEEDS, ROWS = 1024, 128, 512
RUN = yaml.safe_load(Path("configs/evolve_value_loss/q_learning.yaml").read_text(encoding="utf-8"))
SPACE = RUN["evaluation"]["space"]
UNTUNED = [0.2, 0.95, 0.0, 0.0, 0.1]
HAND_WRITTEN = "squared", "huber", "sloped_squared"
ROLES = {name: (name, 0, 0) for name in ("learned", *HAND_WRITTEN)}
ROLES |= {f"null {i}": ("squared", 0, i) for i in (1, 2, 3)} | {"own settings": ("squared", 1, 4)}
"""Loss of each contender; those with the same numbers share their settings, and their seeds."""
PAIRS = [("learned", name) for name in HAND_WRITTEN]
PAIRS += [("null 1", "squared"), ("own settings", "squared")]
CLAIMS = {"learned": HAND_WRITTEN, "null 1": ("squared",), "own settings": ("squared",)}
CLAIMS |= {"null 2": ("squared", "null 1", "null 3")}
"""Contenders that are judged, and the ones that they are compared with."""
BUDGETS = {
    "quick": Budget(256, screening_seeds=1, finalists=6, selection_seeds=16, seeds=48),
    "standard": Budget(),
    "full": Budget(512, screening_seeds=4, selection_seeds=256, seeds=512),
}
Bank = dict[str, np.ndarray]  # for each loss: [tasks, settings, seeds]; setting 0 is untuned
Found = tuple[list[float], list[tuple[float, ...]], list[str]]
"""Differences between the winners of `PAIRS`, their intervals, and the verdicts of `CLAIMS`."""


def train_bank(path: Path) -> None:
    """Train all agents and write their rewards."""
    functions = {name: (getattr(losses, name), None) for name in HAND_WRITTEN}
    functions["learned"] = metaevo.load("zoo:q-learning-loss")
    settings = np.concatenate([[UNTUNED], Budget(SETTINGS).points(SPACE, seed=0)]).astype(
        np.float32
    )
    agents = len(settings) * SEEDS
    rows = np.arange(math.ceil(agents / ROWS) * ROWS).reshape(-1, ROWS) % agents
    bank: dict[str, list[np.ndarray]] = {name: [] for name in functions}
    for (number, task), name in itertools.product(enumerate(TASKS), functions):
        env, env_params = envs.make("GridWorld", observations="index", **task)
        loss, meta = functions[name]
        train = q_learning.make_train(q_learning.Config(5000, 100), env, value_loss=loss)

        def score(key, values, train=train, meta=meta, env_params=env_params):
            hyperparams = q_learning.Hyperparams(**dict(zip(SPACE, values, strict=True)))
            return jnp.sum(train(key, hyperparams, meta, env_params).episodes.rewards)

        run, keys = jax.jit(jax.vmap(score)), jax.random.split(jax.random.key(number), SEEDS)
        found = [np.asarray(run(keys[each % SEEDS], settings[each // SEEDS])) for each in rows]
        bank[name].append(np.concatenate(found)[:agents].reshape(-1, SEEDS))
    np.savez(path, allow_pickle=False, **{name: np.stack(each) for name, each in bank.items()})


def draw(
    bank: Bank, tasks: int, settings: int, seeds: int, sobol: bool, rng: np.random.Generator
) -> np.ndarray:
    """Return scores [contenders, tasks, settings + 1, seeds], the untuned setting first."""
    block = settings * rng.integers(SETTINGS // settings, size=(2, 1)) + np.arange(settings)
    places = 1 + (block if sobol else rng.integers(SETTINGS, size=(2, settings)))
    places = np.concatenate([np.zeros((2, 1), int), places], axis=1)
    keys = rng.integers(SEEDS, size=(tasks, 5, seeds))
    cells = itertools.product(ROLES.values(), range(tasks))
    rows = [bank[loss][task][places[own]][:, keys[task, key]] for (loss, own, key), task in cells]
    return np.reshape(rows, (len(ROLES), tasks, settings + 1, seeds))


def judge(bank: Bank, budget: Budget, tasks: int, sobol: bool, rng: np.random.Generator) -> Found:
    """Redraw a judgement and judge it."""
    _, s, _, S, H = budget.shape
    table = draw(bank, tasks, budget.settings, s + S + H, sobol, rng)
    best = np.array([[budget.best(each[:, :s]) for each in one] for one in table])
    finals = np.take_along_axis(table, best[..., np.newaxis], axis=2)[..., s:]
    high = bank["squared"].mean(axis=2).max(axis=1)[:tasks, np.newaxis] ** (tasks > 1)
    arrays = table[..., :s], best, finals[..., :S], finals[..., S:]
    groups = tuple("" if name in HAND_WRITTEN else name for name in ROLES)
    names, scale = ("8 x 8", "6 x 6")[:tasks], np.concatenate([0 * high, high], axis=1)
    scores = Scores(tuple(ROLES), groups, names, *arrays, scale=scale)
    winners = finals[..., :S].mean(axis=-1).argmax(axis=-1)[..., np.newaxis, np.newaxis]
    tested = np.take_along_axis(arrays[-1], winners, axis=2)[:, :, 0] / high
    plain = dict(zip(ROLES, statistics.iqm(tested.reshape(len(ROLES), -1), axis=1), strict=True))
    return (
        [plain[a] - plain[b] for a, b in PAIRS],
        [scores.difference(a, b).interval for a, b in PAIRS],
        [scores.verdict(name, against=others).word for name, others in CLAIMS.items()],
    )


def main() -> None:
    """Train the bank, redraw judgements, print and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--bank", type=Path, required=True, help="an .npz file, made if missing")
    parser.add_argument("--redraws", type=int, default=300, help="judgements a row; default: 300")
    parser.add_argument("--save", type=Path, help="for a page: docs/results/judgement.json")
    options = parser.parse_args()
    if not options.bank.exists():
        train_bank(options.bank)
    with np.load(options.bank) as file:
        bank = {name: file[name].astype(np.float64) for name in file.files}
    Scores.resamples = 400
    rows: dict[str, tuple[int, Callable[..., Found]]] = {}
    plans = {name: (budget, 1) for name, budget in BUDGETS.items()}
    plans["standard, two tasks"] = BUDGETS["standard"], 2
    for name, (budget, tasks) in plans.items():
        rows[name] = budget.agents, partial(judge, bank, budget, tasks)
    columns, pairs = ("judgement", "settings drawn"), [f"{a} - {b}" for a, b in PAIRS]
    coverage = Table(*columns, "agents a contender", "learned - squared (sd)", *pairs)
    claims = list[tuple[str, ...]]()
    for (title, (agents, redraw)), sobol in itertools.product(rows.items(), (False, True)):
        about = title, "Sobol" if sobol else "independent"
        found = [redraw(sobol, np.random.default_rng(seed)) for seed in range(options.redraws)]
        values, ends, words = (np.array([each[i] for each in found]) for i in range(3))
        truth = values.mean(axis=0) * [a == "learned" for a, _ in PAIRS]
        covered = ((ends[..., 0] <= truth) & (truth <= ends[..., 1])).mean(axis=0)
        halves = np.diff(ends, axis=2).mean(axis=(0, 2)) / 2
        cells = [f"{a:.1%} (± {b:.2g})" for a, b in zip(covered, halves, strict=True)]
        coverage.row(*about, agents, f"{truth[0]:.3g} ({values[:, 0].std():.2g})", *cells)
        shares = [(words[:, 0] == word).mean() for word in ("better", "too few to conclude")]
        shares += list(np.isin(words[:, 1:], ["better", "worse"]).mean(axis=0))
        claims.append((*about, *(f"{share:.1%}" for share in shares)))
    verdicts = Table(*columns, "learned better", "too few", *list(CLAIMS)[1:])
    for row in claims:
        verdicts.row(*row)
    note = f"{options.redraws} redraws a row; coverage of 95% intervals (mean half-width)"
    if options.save is not None:
        save(options.save, {"coverage": coverage, "verdicts": verdicts}, note)


if __name__ == "__main__":
    main()
