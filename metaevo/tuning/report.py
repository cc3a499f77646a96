"""The report of a sweep: the winner, its scores on fresh seeds, and Optuna's figures."""

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.trial import TrialState

from metaevo.config import PlainDict, files
from metaevo.config.documentation import short_names
from metaevo.reports import page, plots
from metaevo.reports.page import cell, estimate
from metaevo.runs.run_directory import RunDirectory
from metaevo.statistics.groups import FEWEST_PAIRS
from metaevo.tuning.objective import Objective
from metaevo.tuning.results import importance
from metaevo.tuning.study import Study

SHOWN_TRIALS = 10
CAPTIONS = {
    "optimisation_history.png": "The objective of every trial that ran to its end, and the best of "
    "them so far: the best of many noisy trials is always too good.",
    "parameter_importance.png": "How much of the objective's variance each setting explains "
    "(fANOVA, Hutter et al. 2014): mostly chance if there are few trials.",
    "slice.png": "The objective against each setting alone.",
    "contour.png": "The objective over pairs of the most important settings.",
    "rungs.png": "The objective of every trial at the rungs of its bracket.",
}
MOST_SETTINGS = 4
"""Most important settings that a contour plot shows against each other."""
WIDTH = 9.0  # inches


def write_sweep_report(
    run: RunDirectory, objective: Objective[Any], study: Study, confirmed: PlainDict | None
) -> None:
    """Draw the figures, write report.html, and print the conclusion and the best trials.

    `confirmed` is the content of evaluation.json.
    """
    draw(study.optuna_study, run.figures)
    config = run.read_config()["config"]
    where = [str(config["task"]["env"])] if "task" in config else []
    what = [str(config[key]) for key in ("problem", "evolve", "learner") if key in config]
    conclusions, tables = ([], []) if confirmed is None else _confirmation(confirmed)
    page.write_run_report(
        run,
        f"Sweep over settings of {', '.join(what) or 'a function'}",
        ", ".join([*where, f"{len(study.trials())} trials"]),
        conclusions,
        [*tables, _best_trials(study, objective)],
        CAPTIONS,
        wide=CAPTIONS,
    )


def _confirmation(result: PlainDict) -> tuple[list[page.Section], list[page.Section]]:
    """Return whether the winner is better than the settings before, and the numbers."""
    word, (winner, before) = result["conclusion"], result["variants"]
    change = estimate(result["difference"], sign=True)
    sentence = (
        f"The {winner['name']} against the {before['name']}, on {winner['seeds']} fresh seeds: "
        f"{change} (95% interval)."
    )
    if winner["seeds"] < FEWEST_PAIRS:
        sentence += f" Fewer than {FEWEST_PAIRS} seeds are always undecided (sweep.confirm_seeds)."
    rows = []
    for row, found in zip(result["variants"], (result["search_value"], None), strict=True):
        settings = ", ".join(f"{key} = {cell(value)}" for key, value in row["settings"].items())
        numbers = [row[key] for key in ("name", "iqm", "interval", "mean")]
        rows.append([*numbers, found, row["diverged"], settings])
    columns = ["fresh seeds", "IQM", "95% interval", "mean", "in the search", "diverged"]
    note = (
        "IQM: interquartile mean. The best of many noisy trials tends to look better in the search "
        "than it is. A conclusion needs a rank test in addition to the interval."
    )
    heading = "Confirmation on fresh seeds"
    table = page.Table(heading, [*columns, "settings"], rows, note=note, highlight=[0])
    return [page.Text(word.capitalize(), [sentence], word)], [table]


def _best_trials(study: Study, objective: Objective[Any]) -> page.Table:
    trials = study.trials()
    complete = [trial for trial in trials if trial.outcome == "complete"]
    complete.sort(key=lambda trial: -(trial.value or 0.0))
    names = list(objective.space)
    rows = [
        [trial.number, trial.value, *(trial.params.get(name) for name in names)]
        for trial in complete[:SHOWN_TRIALS]
    ]
    config, outcomes = objective.config, Counter(trial.outcome for trial in trials)
    note = (
        f"{outcomes['complete']} trials are complete, {outcomes['pruned']} pruned and "
        f"{outcomes['failed']} failed, after {sum(trial.frames for trial in trials):,} environment "
        f"steps; {sum(trial.diverged > 0 for trial in trials)} have a diverged agent. Sampler "
        f"{config.sampler}, scheduler {config.scheduler}."
    )
    columns = ["trial", f"{config.statistic} of {config.seeds} seeds", *names]
    return page.Table("Best trials of the search", columns, rows, note=note)


def shortened(study: optuna.Study) -> optuna.Study:
    """Return a copy in which settings have short names, which fit on an axis.

    All trials are in it, also those of killed processes, so that they keep their numbers.
    """
    trials = study.get_trials()
    short = short_names({name for trial in trials for name in trial.params})
    for trial in trials:
        trial.params = {short[name]: value for name, value in trial.params.items()}
        trial.distributions = {short[name]: each for name, each in trial.distributions.items()}
    found = optuna.create_study(direction="maximize")
    found.add_trials(trials)
    return found


def draw(study: optuna.Study, directory: Path) -> None:
    """Draw the figures that the finished trials allow into a directory."""
    import matplotlib as mpl
    from matplotlib import pyplot

    study = shortened(study)
    trials = study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))
    complete = sum(trial.state == TrialState.COMPLETE for trial in trials)
    important = list(importance(study))[:MOST_SETTINGS]
    visual = optuna.visualization.matplotlib
    mpl.use("agg")  # no window, whatever the display
    # Optuna changes pyplot's style for good, warns that it is experimental, and about layouts.
    with mpl.rc_context({}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn: dict[str, Any] = {}
        if complete:
            drawn["optimisation_history"] = visual.plot_optimization_history(study)
        if complete > 1:
            drawn["slice"] = visual.plot_slice(study)
        if len(important) > 1:
            drawn["parameter_importance"] = visual.plot_param_importances(study)
            drawn["contour"] = visual.plot_contour(study, params=important)
        if any(len(trial.intermediate_values) > 1 for trial in trials):
            drawn["rungs"] = visual.plot_intermediate_values(study)
        for name, axes in drawn.items():
            grid = np.asarray(axes, dtype=object)
            first = grid.ravel()[0]
            figure = first.figure
            figure.suptitle("")  # a report has its own heading
            if grid.ndim:
                figure.set_layout_engine("constrained")
            figure.set_size_inches(WIDTH, max(4.5, 2.4 * len(grid) if grid.ndim > 1 else 0.0))
            if name == "rungs" and first.get_legend() is not None:
                first.get_legend().remove()  # one line per trial
            with files.replacing(directory / f"{name}.png") as file:
                figure.savefig(file, format="png", dpi=plots.DPI // 2, bbox_inches="tight")
            pyplot.close(figure)
