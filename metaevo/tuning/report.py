"""The report of a sweep: the winner, its scores on fresh seeds, and all figures."""

from collections import Counter
from pathlib import Path
from typing import Any

from metaevo.config.plain import PlainDict
from metaevo.reports import page as report
from metaevo.reports.numbers import cell, number
from metaevo.runs.quick import NOTE, is_quick
from metaevo.runs.run_directory import RunDirectory
from metaevo.tuning import figures
from metaevo.tuning.objective import Objective
from metaevo.tuning.results import BEST, TRIALS
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
    shown: list[report.Text | report.Table] = []
    if is_quick(config):
        shown.append(report.Text("A quick look", NOTE))
    if confirmed is not None:
        if not is_quick(config):  # a quick look has no conclusion
            shown.append(report.Text("Conclusion", _conclusion(confirmed)))
        shown.append(_confirmation_table(confirmed))
    shown.append(_trials_table(trials, objective))
    for each in shown:
        text = each.text() if isinstance(each, report.Table) else str(each.paragraphs)
        print(f"\n{report.wrapped(text) if isinstance(each, report.Text) else text}")
    sections: list[report.Section] = [*shown]
    for name, caption in figures.CAPTIONS.items():
        if (run.figures / name).exists():
            heading = Path(name).stem.replace("_", " ").capitalize()
            sections.append(report.Image(heading, run.figures / name, caption))
    sections.append(report.KeyValues("Settings", config))
    sections.append(report.KeyValues("Environment", {**saved["resolved"], **saved["environment"]}))
    where = [str(config["task"]["env"])] if "task" in config else []
    subtitle = ", ".join([*where, f"{len(trials)} trials"])
    what = [str(config[key]) for key in ("problem", "evolve", "learner") if key in config]
    title = f"Sweep over settings of {', '.join(what) or 'a function'}"
    report.write_report(run.report_path, title, subtitle, sections)


def _conclusion(result: PlainDict) -> str:
    """Return in words whether the winner is better than the settings before, on fresh seeds."""
    winner, before = result["variants"]
    return (
        f"{result['conclusion'].capitalize()}: the {winner['name']} {number(winner['iqm'])}, the "
        f"{before['name']} {number(before['iqm'])} (interquartile mean over {winner['seeds']} "
        f"fresh seeds, which both share); {report.difference(result)}. In the search trial "
        f"{result['best_trial']} had {number(result['search_value'])}; its mean on fresh seeds is "
        f"{number(winner['mean'])}: the best of many noisy trials tends to look better than it is. "
        f"{BEST} holds its settings, {TRIALS} every trial."
    )


def _confirmation_table(result: PlainDict) -> report.Table:
    rows = []
    for row in result["variants"]:
        settings = ", ".join(f"{key} = {cell(value)}" for key, value in row["settings"].items())
        numbers = [row[key] for key in ("name", "iqm", "interval", "mean", "diverged")]
        rows.append([*numbers, settings])
    columns = ["fresh seeds", "IQM", "95% interval", "mean", "diverged", "settings"]
    return report.Table("Confirmation on fresh seeds", columns, rows, highlight=[0])


def _trials_table(trials: list[Trial], objective: Objective[Any]) -> report.Table:
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
    return report.Table("Best trials of the search", columns, rows, note=note)
