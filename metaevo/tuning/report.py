"""The report of a sweep: the winner, its scores on fresh seeds, and all figures."""

from collections import Counter
from typing import Any

from metaevo.config.plain import PlainDict
from metaevo.reports import page
from metaevo.reports.page import cell, estimate
from metaevo.runs.quick import NOTE, is_quick
from metaevo.runs.run_directory import RunDirectory
from metaevo.tuning import figures
from metaevo.tuning.objective import Objective
from metaevo.tuning.study import Study, Trial

SHOWN_TRIALS = 10


def write_sweep_report(
    run: RunDirectory, objective: Objective[Any], study: Study, confirmed: PlainDict | None
) -> None:
    """Draw the figures, write report.html, and print the conclusion and the best trials.

    `confirmed` is the content of evaluation.json.
    """
    trials, saved = study.trials(), run.read_config()
    config = saved["config"]
    figures.draw(study.optuna_study, run.figures)
    sections: list[page.Section] = []
    if is_quick(config):
        sections.append(page.Text("Quick look", [NOTE], "quick"))
    elif confirmed is not None:
        sections.append(_conclusion(confirmed))
    if confirmed is not None:
        sections.append(_confirmation(confirmed))
    images = page.images(run.figures, figures.CAPTIONS, wide=figures.CAPTIONS)
    sections += [_best_trials(trials, objective), *images]
    where = [str(config["task"]["env"])] if "task" in config else []
    what = [str(config[key]) for key in ("problem", "evolve", "learner") if key in config]
    page.write_report(
        run.report_path,
        f"Sweep over settings of {', '.join(what) or 'a function'}",
        ", ".join([*where, f"{len(trials)} trials"]),
        [*sections, *page.about(saved)],
        show=True,
    )


def _conclusion(result: PlainDict) -> page.Text:
    """Return whether the winner is better than the settings before, on fresh seeds."""
    word, (winner, before) = result["conclusion"], result["variants"]
    change = estimate(result["difference"], *result["difference_interval"], sign=True)
    sentence = (
        f"The {winner['name']} against the {before['name']}, on {winner['seeds']} fresh seeds: "
        f"{change} (95% interval)."
    )
    return page.Text(word.capitalize(), [sentence], word)


def _confirmation(result: PlainDict) -> page.Table:
    rows = []
    for row in result["variants"]:
        settings = ", ".join(f"{key} = {cell(value)}" for key, value in row["settings"].items())
        numbers = [row[key] for key in ("name", "iqm", "interval", "mean", "diverged")]
        rows.append([*numbers, settings])
    rows[0].insert(4, result["search_value"])
    rows[1].insert(4, None)
    columns = ["fresh seeds", "IQM", "95% interval", "mean", "in the search", "diverged"]
    note = (
        "IQM: interquartile mean. The best of many noisy trials tends to look better in the search "
        "than it is. A conclusion needs a rank test in addition to the interval."
    )
    heading = "Confirmation on fresh seeds"
    return page.Table(heading, [*columns, "settings"], rows, note=note, highlight=[0])


def _best_trials(trials: list[Trial], objective: Objective[Any]) -> page.Table:
    complete = [trial for trial in trials if trial.outcome == "complete"]
    complete.sort(key=lambda trial: -(trial.value or 0.0))
    names = list(objective.space.entries)
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
