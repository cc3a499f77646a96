"""End of a training run: learning curves, episodes of the policies, figures, the report."""

import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

from metaevo.config import ConfigError, to_dict
from metaevo.config.files import plain, replacing, write_json_atomic, write_text_atomic
from metaevo.config.plain import PlainDict
from metaevo.evolution import devices
from metaevo.evolution.seeding import Purpose, keys_for
from metaevo.reports import page as report
from metaevo.reports import plots, value_maps
from metaevo.runs.progress import Progress
from metaevo.runs.quick import NOTE, mark
from metaevo.runs.run import Run
from metaevo.statistics import summarise
from metaevo.tasks.bound import Bound
from metaevo.tasks.fitness import FINAL_FRACTION, mean_returns, weights_text
from metaevo.tasks.population import Population
from metaevo.training.result import WHOLE, TrainingResult
from metaevo.training.settings import TrainSettings, title_of
from purerl.envs.render import frames_per_second, record_episode, renderer, save_gif
from purerl.parts.evaluation import evaluate
from purerl.parts.evaluation_in_gymnasium import evaluate_in_gymnasium, make_in_gymnasium
from purerl.types import EpisodeSums, PyTree

AGENTS_AT_ONCE = 64
FILM_STEPS = 300
"""Steps of the film, at most."""
VALUE_MAP, FILM, CURVES = "value_map.png", "episode.gif", "learning_curves.csv"


def check(settings: TrainSettings, task: Bound) -> None:
    """Raise `ConfigError` if a film, or an environment in Gymnasium, is wanted and impossible."""
    env_name = task.name
    if settings.evaluation.film and renderer(task.learner.env) is None:
        raise ConfigError(
            f"evaluation.film = true: {env_name} cannot be drawn; classic control, MinAtar, "
            "the suites, GridWorld and environments with `render(state, params)` can"
        )
    wanted = settings.evaluation.gymnasium
    if not wanted:
        return
    if not settings.evaluation.episodes:
        raise ConfigError(f"evaluation.gymnasium = {wanted}: needs evaluation.episodes > 0")
    try:
        make_in_gymnasium(env_name).close()
    except ValueError as error:
        raise ConfigError(f"evaluation.gymnasium = {wanted}: {error}") from None


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
    settings, task, directory = run.settings, population.task, run.directory
    config = settings.train
    policies, steps, curves = result.policies, result.steps, result.returns
    _write_curves(directory.path / CURVES, steps, curves)
    plots.plot_learning_curves(
        {title_of(settings): curves},
        steps,
        directory.figures / "learning_curves.png",
        complete_from=task.complete_from,
    )
    _draw_table(directory.figures / VALUE_MAP, task, policies)
    if settings.evaluation.film is not False and renderer(task.learner.env) is not None:
        _film(directory.figures / FILM, settings, task, policies)
    rows = [_row("end of training", _final_returns(episodes))]
    rows.append(_row(WHOLE, result.scores))
    rows += _play(run, population, policies)
    evaluation = {
        "variants": rows,
        "diverged": int(np.sum(result.diverged)),
        "episodes": settings.evaluation.episodes,
        "greedy": settings.evaluation.greedy,
        "steps_per_agent": config.num_updates * config.frames_per_update,
        **mark(to_dict(settings)),
    }
    frames = config.num_updates * config.frames_per_update * settings.seeds
    run.log_evaluation(rows, [frames] * len(rows), seconds)
    _track_seeds(run, steps, curves)
    write_json_atomic(directory.evaluation_path, evaluation)
    _write_report(run, task.name, evaluation)
    print(f"report: {directory.report_path}")


def _final_returns(episodes: EpisodeSums) -> np.ndarray:
    last = max(1, round(FINAL_FRACTION * episodes.episodes.shape[1]))
    return mean_returns(jax.tree.map(lambda sums: sums[:, -last:].sum(axis=1), episodes))


def _row(name: str, scores: np.ndarray) -> PlainDict:
    """A row of evaluation.json; agents without a finished episode have no score."""
    known = scores[np.isfinite(scores)]
    row = {"name": name, "settings": {}, "tuning_frames": 0, "scores": scores, "seeds": len(known)}
    if not len(known):
        return row | {"mean": None, "iqm": None, "interval": [None, None]}
    found = summarise(known)
    return row | {"mean": found.mean, "iqm": found.iqm, "interval": list(found.interval)}


def _play(run: Run[TrainSettings], population: Population, policies: PyTree) -> list[PlainDict]:
    settings, bound = run.settings, population.task
    env_name, learner, env_params = bound.name, bound.learner, bound.env_params
    config, seed = settings.evaluation, settings.run.seed
    if not config.episodes:
        return []
    kind = "greedy" if config.greedy else "sampled"

    def play(row):
        return evaluate(
            learner,
            row["policy"],
            row["key"],
            env_params,
            num_episodes=config.episodes,
            greedy=config.greedy,
        ).mean()

    row_map = devices.RowMap(play, chunk_size=AGENTS_AT_ONCE, num_devices=population.num_devices)
    rows = {"policy": policies, "key": keys_for(seed, Purpose.PLAYING, settings.seeds)}
    total = settings.seeds + min(config.gymnasium, settings.seeds)
    with Progress(total=total, desc="playing", unit="agent", check_stop=run.check_stop) as bar:
        played = [_row(f"{kind} policy", row_map(rows, bar.update))]
        scores = []
        for index in range(total - settings.seeds):
            policy = jax.tree.map(lambda leaf: leaf[index], policies)  # noqa: B023
            try:
                scores.append(
                    evaluate_in_gymnasium(
                        learner,
                        policy,
                        env_name,
                        seed=index * config.episodes,
                        num_episodes=config.episodes,
                        greedy=config.greedy,
                    ).mean()
                )
            except ValueError as error:  # observations of another size
                raise ConfigError(f"evaluation.gymnasium: {error}") from error
            bar.update()
        if scores:
            played.append(_row(f"{kind} policy in Gymnasium", np.asarray(scores)))
    return played


def _write_curves(path: Path, steps: np.ndarray, curves: np.ndarray) -> None:
    """Write a line for every point, a column for every agent; empty where no episode finished."""
    lines = [",".join(["steps", *(f"seed_{index}" for index in range(len(curves)))])]
    for step, values in zip(steps.tolist(), curves.T, strict=True):
        cells = ["" if np.isnan(value) else f"{value:.7g}" for value in values]
        lines.append(",".join([str(step), *cells]))
    write_text_atomic(path, "\n".join(lines) + "\n")


def _track_seeds(run: Run[TrainSettings], steps: np.ndarray, curves: np.ndarray) -> None:
    """Hand the first agents' learning curves to the trackers as nested runs."""
    config = run.settings.train
    for seed, curve in enumerate(curves[: run.settings.run.track_seeds]):
        records = [
            {
                "kind": "update",
                "update": frames // config.frames_per_update - 1,
                "frames": frames,
                "mean_return": value,
            }
            for frames, value in zip(steps.tolist(), plain(curve), strict=True)
        ]
        run.trackers.log_nested(f"seed_{seed}", "seed", {"agent": seed, "seeds": 1}, records)


def _draw_table(path: Path, task: Bound, policies: PyTree) -> None:
    if not hasattr(policies, "visits"):
        return
    q = np.mean(policies.q, axis=0)
    grid = value_maps.grid_map(task.learner.env, len(q))
    if grid is not None:
        visits = np.sum(policies.visits, axis=0)
        value_maps.plot_value_map(q, visits, grid, path)


def _film(path: Path, settings: TrainSettings, task: Bound, policies: PyTree) -> None:
    policy = jax.tree.map(lambda leaf: leaf[0], policies)
    (key,) = keys_for(settings.run.seed, Purpose.PLAYING, 1)
    try:
        frames = record_episode(
            task.learner,
            policy,
            key,
            task.env_params,
            greedy=settings.evaluation.greedy,
            max_steps=FILM_STEPS,
        )
    except Exception as error:  # a user's `render` may raise anything
        warnings.warn(f"no film: {type(error).__name__}: {error}", stacklevel=2)
        return
    with replacing(path) as file:
        save_gif(file, frames, frames_per_second(task.learner.env))


def _write_report(run: Run[TrainSettings], env_name: str, result: PlainDict) -> None:
    directory, settings = run.directory, run.settings
    saved = directory.read_config()
    rows = []
    for row in result["variants"]:
        interval = None if row["interval"][0] is None else row["interval"]
        known = row["scores"][np.isfinite(row["scores"])]
        worst, best = (known.min(), known.max()) if len(known) else (None, None)
        rows.append([row["name"], row["seeds"], row["mean"], row["iqm"], interval, worst, best])
    table = report.Table(
        "Returns",
        ["episodes", "agents", "mean", "IQM", "95% interval of IQM", "worst", "best"],
        rows,
        note=f"Mean returns of an agent; end of training: its last {FINAL_FRACTION:.0%}; fitness: "
        f"{weights_text(to_dict(settings.fitness))}; a policy plays {result['episodes']} episodes. "
        f"Diverged agents: {result['diverged']}. An agent without a finished episode there has no "
        "score.",
    )
    print("\n" + table.text() + "\n")
    sections: list[Any] = []
    if settings.run.quick:
        print(report.wrapped(NOTE) + "\n")
        sections.append(report.Text("A quick look", NOTE))
    path = directory.figures / VALUE_MAP
    caption = "Means over the agents: highest action value of each state with the greedy actions, "
    pictures = [report.Image("Value map", path, caption + "and visits.")] if path.exists() else []
    if (directory.figures / FILM).exists():
        pictures.append(report.Image("An episode", directory.figures / FILM, "Of the first agent."))
    sections += [
        table,
        report.Image(
            "Learning curves",
            directory.figures / "learning_curves.png",
            "Mean return of finished episodes, with 95% bootstrap interval over agents.",
        ),
        *pictures,
        report.KeyValues("Settings", saved["config"]),
        report.KeyValues("Environment", {**saved["resolved"], **saved["environment"]}),
    ]
    report.write_report(
        directory.report_path,
        f"Training {title_of(settings)} on {env_name}",
        f"{settings.seeds} agents, {result['steps_per_agent']:,} steps each",
        sections,
    )
