"""The report of a sweep: the winner, its scores on fresh seeds, and all figures."""

from pathlib import Path

from metaevo.config.files import read_json
from metaevo.config.plain import PlainDict
from metaevo.reports import page as report
from metaevo.reports.numbers import cell, number
from metaevo.runs.quick import NOTE, is_quick
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import Confirmation
from metaevo.tuning import figures
from metaevo.tuning.objective import Objective, Plan
from metaevo.tuning.results import BEST, TRIALS
from metaevo.tuning.study import Record, Study

SHOWN_TRIALS = 10


def write_sweep_report(run: RunDirectory, objective: Objective, study: Study, plan: Plan) -> None:
    """Draw the figures, write report.html, and print the conclusion and the best trials."""
    records, saved = study.records(), run.read_config()
    config = saved["config"]
    figures.draw(study.optuna_study, run.figures)
    shown: list[report.Text | report.Table] = []
    if is_quick(config):
        shown.append(report.Text("A quick look", NOTE))
    if run.evaluation_path.exists():
        result = read_json(run.evaluation_path, Confirmation)
        if not is_quick(config):  # a quick look has no conclusion
            shown.append(report.Text("Conclusion", _conclusion(result)))
        shown.append(_confirmation_table(result))
    shown += [_trials_table(records, objective), _counts(records, plan, objective)]
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
    subtitle = ", ".join([*where, f"{len(records)} trials"])
    what = [str(config[key]) for key in ("study", "evolve", "learner") if key in config]
    title = f"Sweep over settings of {', '.join(what) or 'a function'}"
    report.write_report(run.report_path, title, subtitle, sections)


def _conclusion(result: PlainDict) -> str:
    """Return in words whether the winner is better than the settings before, on fresh seeds."""
    winner, before = result["variants"]
    (pair,) = result["pairs"]
    return (
        f"{pair['conclusion'].capitalize()}: the {winner['name']} {number(winner['iqm'])}, the "
        f"{before['name']} {number(before['iqm'])} (interquartile mean over "
        f"{winner['seeds']} fresh seeds); {report.difference(pair)}."
        f" In the search trial {result['best_trial']} had {number(result['search_value'])}; "
        f"its mean on fresh seeds is {number(winner['mean'])}: the best of many noisy trials "
        f"tends to look better than it is. The search took {winner['tuning_frames']:,} "
        f"environment steps. {BEST} holds its settings, {TRIALS} every trial."
    )


def _confirmation_table(result: PlainDict) -> report.Table:
    rows = []
    for row in result["variants"]:
        settings = ", ".join(f"{key} = {cell(value)}" for key, value in row["settings"].items())
        numbers = [row[key] for key in ("name", "iqm", "interval", "mean", "diverged")]
        rows.append([*numbers, settings])
    columns = ["fresh seeds", "IQM", "95% interval", "mean", "diverged", "settings"]
    return report.Table("Confirmation on fresh seeds", columns, rows, highlight=[0])


def _trials_table(records: list[Record], objective: Objective) -> report.Table:
    ended = [record for record in records if record.outcome == "complete"]
    ended.sort(key=lambda record: (-record.value, record.number))  # type: ignore[operator]
    names = list(objective.space.distributions)
    rows = [
        [record.number, record.value, *(record.params.get(name) for name in names)]
        for record in ended[:SHOWN_TRIALS]
    ]
    statistic = objective.config.statistic
    columns = ["trial", f"{statistic} of {objective.config.seeds} seeds", *names]
    return report.Table("Best trials of the search", columns, rows)


def _counts(records: list[Record], plan: Plan, objective: Objective) -> report.Table:
    frames = sum(record.frames for record in records)
    outcomes = [record.outcome for record in records]
    rows: list[list[object]] = [
        ["complete", outcomes.count("complete")],
        ["pruned", outcomes.count("pruned")],
        ["failed", outcomes.count("failed")],
        ["with a diverged agent", sum(bool(record.diverged) for record in records)],
        ["environment steps", frames],
        ["share of training all to the end", f"{frames / max(plan.full_frames, 1):.0%}"],
    ]
    note = f"Sampler {objective.config.sampler}, scheduler {objective.config.scheduler}."
    return report.Table("Trials", ["", ""], rows, note=note)
