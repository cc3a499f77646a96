"""End of a training run: learning curves, episodes of the policies, figures, the report."""

import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

from metaevo.config import ConfigError, PlainDict, PlainMapping
from metaevo.config.files import replacing, write_json_atomic
from metaevo.evolution.problem import Purpose, keys_for
from metaevo.evolution.rows import RowMap
from metaevo.reports import page, plots, policies
from metaevo.reports.results import draw_values
from metaevo.runs.run import Run
from metaevo.runs.terminal import Progress
from metaevo.statistics import summarise
from metaevo.tasks.fitness import FINAL_FRACTION, mean_returns
from metaevo.tasks.population import Population
from metaevo.tasks.task import Bound
from metaevo.training.result import CURVES, GREEDY, WHOLE, TrainingResult
from metaevo.training.settings import TrainSettings, title_of
from purerl.envs import GridWorld
from purerl.envs.grid import MOVES
from purerl.parts.evaluation import evaluate
from purerl.parts.evaluation_in_gymnasium import evaluate_in_gymnasium, make_in_gymnasium
from purerl.types import EpisodeSums, PyTree
from purerl.wrapped import innermost

AGENTS_AT_ONCE = 64
FILM_STEPS = 300
"""Steps of the film, at most."""
CSV, VALUE_MAP, FILM = "learning_curves.csv", "value_map.png", "episode.gif"
CAPTIONS = {
    CURVES: "Learning curves: mean return of finished episodes, with 95% bootstrap interval over "
    "agents. At the beginning only short episodes can have finished.",
    VALUE_MAP: "Means over the agents: highest action value of each state with the greedy actions, "
    "and visits.",
    FILM: "An episode of the first agent.",
}


def check(settings: TrainSettings, task: Bound) -> None:
    """Raise `ConfigError` if a film, or an environment in Gymnasium, is wanted and impossible."""
    config = settings.evaluation
    if config.film and policies.renderer(task.learner.env) is None:
        raise ConfigError(
            f"evaluation.film = true: {task.name} cannot be drawn; classic control, MinAtar, "
            "Navix, XLand, Craftax, GridWorld and environments with `render(state, params)` can"
        )
    if not config.gymnasium:
        return
    where = f"evaluation.gymnasium = {config.gymnasium}"
    if not config.episodes:
        raise ConfigError(f"{where}: needs evaluation.episodes > 0")
    try:
        make_in_gymnasium(task.name).close()
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None


def finish(
    run: Run[TrainSettings],
    population: Population,
    result: TrainingResult,
    episodes: EpisodeSums,
    *,
    seconds: float,
) -> None:
    """Judge the policies of a run with all its updates done; write curves, figures and report.

    The fields of `episodes` are [agents, points]; the training took so many `seconds`.
    """
    directory, agents = run.directory, run.settings.seeds
    _write_curves(directory.path / CSV, result)
    _draw(run, population.task, result)
    last = max(1, round(FINAL_FRACTION * len(result.steps)))
    final = jax.tree.map(lambda sums: sums[:, -last:].sum(axis=1), episodes)
    scores = {"end of training": mean_returns(final), WHOLE: result.scores}
    if result.evaluations is not None:
        scores[GREEDY] = result.evaluations[:, -1]  # at the end of training
    scores |= _play(run, population, result.policies)
    rows = [{"name": name, **summarise(each)} for name, each in scores.items()]
    run.log_evaluation(rows, [population.frames * agents] * len(rows), seconds)
    diverged = int(result.diverged.sum())
    write_json_atomic(directory.evaluation_path, {"variants": rows, "diverged": diverged})
    _write_report(run, population, rows, diverged)


def _play(
    run: Run[TrainSettings], population: Population, policies: PyTree
) -> dict[str, np.ndarray]:
    """Return the mean returns [agents] of the policies in new episodes."""
    settings, task, config = run.settings, population.task, run.settings.evaluation
    if not config.episodes:
        return {}
    name = "greedy policy" if config.greedy else "sampled policy"
    options: PlainDict = {"num_episodes": config.episodes, "greedy": config.greedy}

    def play(row):
        policy, key = row["policy"], row["key"]
        return evaluate(task.learner, policy, key, task.env_params, **options).mean()

    keys = keys_for(settings.run.seed, Purpose.PLAYING, settings.seeds)
    row_map = RowMap(play, chunk_size=AGENTS_AT_ONCE, num_devices=population.num_devices)
    again = range(min(config.gymnasium, settings.seeds))
    total = settings.seeds + len(again)
    with Progress(total=total, desc="playing", unit="agent", check_stop=run.stop.check) as bar:
        found = {name: row_map({"policy": policies, "key": keys}, bar.update)}
        scores = []
        for agent in again:
            policy = jax.tree.map(lambda leaf: leaf[agent], policies)  # noqa: B023
            seed = agent * config.episodes
            try:
                returns = evaluate_in_gymnasium(
                    task.learner, policy, task.name, seed=seed, **options
                )
            except ValueError as error:  # observations of another size
                raise ConfigError(f"evaluation.gymnasium: {error}") from error
            scores.append(float(returns.mean()))
            bar.update()
    if scores:
        found[f"{name} in Gymnasium"] = np.array(scores)
    return found


def _write_curves(path: Path, result: TrainingResult) -> None:
    """Write a line for every point, with columns for every agent; nan where nothing is known."""
    curves = {"seed": result.returns}
    if result.evaluations is not None:
        curves["evaluation"] = result.evaluations
    names = [f"{name}_{index}" for name, each in curves.items() for index in range(len(each))]
    table = np.column_stack([result.steps, *(each.T for each in curves.values())])
    head, formats = ",".join(["steps", *names]), ["%d", *["%.7g"] * len(names)]
    with replacing(path) as file:
        np.savetxt(file, table, formats, ",", header=head, comments="")


# --- Figures and the report ---------------------------------------------------------------------


def _draw(run: Run[TrainSettings], task: Bound, result: TrainingResult) -> None:
    settings, figures, trained = run.settings, run.directory.figures, result.policies
    result.draw(figures)
    env: Any = innermost(task.learner.env)[0]
    if isinstance(env, GridWorld) and hasattr(trained, "visits"):
        q, visits = np.mean(trained.q, axis=0), np.sum(trained.visits, axis=0)
        values = draw_values(q, visits, env.shape, MOVES)
        plots.save_figure(values, figures / VALUE_MAP)
    if settings.evaluation.film is not False and policies.renderer(task.learner.env) is not None:
        policy = jax.tree.map(lambda leaf: leaf[0], trained)
        (key,) = keys_for(settings.run.seed, Purpose.PLAYING, 1)
        options: PlainDict = {"greedy": settings.evaluation.greedy, "max_steps": FILM_STEPS}
        fps = 30.0 if "classic_control" in type(env).__module__ else 8.0
        try:
            frames = policies.record_episode(task.learner, policy, key, task.env_params, **options)
            policies.save_gif(figures / FILM, frames, fps)
        except Exception as error:  # a user's `render` may raise anything
            warnings.warn(f"no film: {type(error).__name__}: {error}", stacklevel=2)


def _write_report(
    run: Run[TrainSettings], population: Population, rows: list[PlainDict], diverged: int
) -> None:
    settings = run.settings
    table = page.Table(
        "Returns",
        ["episodes", "agents", "mean", "IQM", "95% interval of IQM", "worst", "best"],
        list(map(_cells, rows)),
        note=f"Mean returns of an agent; end of training: its last {FINAL_FRACTION:.0%}; fitness: "
        f"{_weights_text(settings.fitness.weights)}; a policy plays "
        f"{settings.evaluation.episodes} episodes. Diverged agents: {diverged}. An agent without "
        "a finished episode there has no score.",
    )
    title = f"Training {title_of(settings)} on {population.task.name}"
    subtitle = f"{settings.seeds} agents, {population.frames:,} steps each"
    page.write_run_report(run.directory, title, subtitle, [], [table], CAPTIONS, [VALUE_MAP])


def _cells(row: PlainDict) -> list[Any]:
    known = row["scores"][np.isfinite(row["scores"])]
    ends = [float(known.min()), float(known.max())] if len(known) else [None, None]
    return [*(row[key] for key in ("name", "seeds", "mean", "iqm", "interval")), *ends]


def _weights_text(weights: PlainMapping) -> str:
    """Format the fitness as a weighted sum, such as "mean_return + 0.5 x reward_per_step"."""
    return " + ".join(
        name if weight == 1 else f"{weight:g} x {name}" for name, weight in weights.items()
    )
