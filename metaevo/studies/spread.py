"""Compare, draw and report several evolutions, and choose the best by validation."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from metaevo.comparison.carried import carried_by
from metaevo.comparison.evaluation import LEARNED
from metaevo.components import discovery
from metaevo.config.plain import PlainMapping
from metaevo.evolution.strategies import has_mean
from metaevo.reports import layout, page, score_plots
from metaevo.reports.evolution_plots import plot_evolutions
from metaevo.reports.numbers import estimate, number
from metaevo.reports.score_plots import ScoreRow
from metaevo.runs import checkpoint
from metaevo.runs.quick import NOTE, is_quick
from metaevo.runs.run import Run
from metaevo.runs.run_directory import RunDirectory
from metaevo.runs.schema import HeldOut, Judgement, Together, Unseen, pooled
from metaevo.studies import unseen_report, verdict
from metaevo.studies.conclusion import (
    CAPTIONS,
    FITNESS,
    QUICK,
    SCORES,
    caption_of_curves,
    facts_of,
    fold,
    heading,
    keep_result,
    pictures,
    print_end,
    reference_of,
)
from metaevo.studies.settings import EvolutionSettings
from metaevo.studies.study import Study
from purerl.types import PyTree

TOGETHER = f"{LEARNED} (all evolutions)"
"""Label of the mean over evolutions in the figure of scores."""
SPREAD = {
    FITNESS: "Fitness of every evolution on its validation seeds; the thick one is the best there.",
    SCORES: "What every evolution found: interquartile mean on the same held-out seeds with 95% "
    "bootstrap intervals, and differences from the strongest hand-written contender. The interval "
    "of all evolutions takes the evolution as the unit.",
}


class Member(NamedTuple):
    """One of several evolutions."""

    seed: int
    directory: RunDirectory

    @property
    def name(self) -> str:
        """Name of the result in the comparison."""
        return f"{LEARNED} seed {self.seed}"

    @property
    def records(self) -> Sequence[PlainMapping]:
        """Records of the generations."""
        return self.directory.read_metrics("generation")


def members_of(path: Path, settings: EvolutionSettings) -> list[Member]:
    """Return the evolutions of a run, including evolutions that have not begun.

    Args:
        path: the directory of the run.
        settings: the settings of the run.
    """
    first = settings.run.seed
    seeds = range(first, first + settings.run.evolution_seeds)
    return [Member(seed, RunDirectory(path / f"seed_{seed}")) for seed in seeds]


def validation_of(member: Member, settings: EvolutionSettings) -> float:
    """Return the fitness of an evolution's result on its validation seeds.

    Args:
        member: the evolution.
        settings: settings of the run.

    Returns:
        the fitness of the last mean or, for algorithms without a mean, of the best candidate;
        without validation, of the last population; -inf without records or if it diverged.
    """
    records = member.records
    key = "fitness_of_mean" if settings.evolution.validation_seeds else "fitness_mean"
    if has_mean(settings.strategy) or key == "fitness_mean":
        records = records[-1:]
    known = [each[key] for each in records if each[key] is not None]
    return float(max(known, default=-math.inf))


def conclude_all(study: Study, run: Run[EvolutionSettings]) -> None:
    """Choose the best evolution by validation, judge every evolution, and write the report.

    Args:
        study: the study that was evolved.
        run: a run with all evolutions done.
    """
    run.save_as_it_goes()
    directory, settings = run.directory, run.settings
    members = members_of(directory.path, settings)
    scores = [validation_of(each, settings) for each in members]
    chosen = members[scores.index(max(scores))]
    found, about = checkpoint.load_tree(chosen.directory.meta_params)
    about = {**about, "evolution_seed": chosen.seed}
    checkpoint.save_tree(directory.meta_params, found, about)
    study.draw(found, directory.figures)
    learned = {chosen.name: found}
    for each in members:
        if each is not chosen:
            learned[each.name], _ = checkpoint.load_tree(each.directory.meta_params)
    last = [each.records[-1:] for each in members]
    result = study.compare(
        learned,
        directory.path,
        evolution_frames=max((one["frames"] for each in last for one in each), default=0),
        measured=run.resolved,
        check_stop=run.check_stop,
    )
    if result is not None:
        judged = {_function(result, each): each for each in result["evolutions"]}
        result["evolutions"] = [
            {**judged[each.name], "seed": each.seed, "validation": score}
            for each, score in zip(members, scores, strict=True)
        ]
        keep_result(run, result, sum(one["seconds"] for each in last for one in each))
    _write_report(study, run, members, scores, chosen, found, result, discovery.is_loadable(about))
    print(f"report: {directory.report_path}")


def _write_report(
    study: Study,
    run: Run[EvolutionSettings],
    members: list[Member],
    scores: list[float],
    chosen: Member,
    found: PyTree,
    result: HeldOut | None,
    loadable: bool,
) -> None:
    """Write report.html with the spread first, and print the tables and the verdict."""
    directory = run.directory
    saved, records = directory.read_config(), {each.name: each.records for each in members}
    quick = is_quick(saved["config"])
    unseen, drawn = result.get("unseen") if result else None, dict[str, str]()
    if any(records.values()):
        plot_evolutions(
            {f"seed {each.seed}": records[each.name] for each in members},
            directory.figures / FITNESS,
            chosen=f"seed {chosen.seed}",
            baseline=reference_of(result) if result else {},
        )
    if result is not None:
        _draw_scores(result, directory.figures / SCORES)
    findings = study.findings(found, result or {})
    if numbers := verdict.evolved_numbers(found):
        findings = [*findings, verdict.numbers_text(numbers)]
    if findings:
        findings = [f"Of seed {chosen.seed}, the best on validation seeds:", *findings]
    tables = [table(members, scores, result)]
    ablations: list[page.Table] = []
    words = [about_choice(members, scores, chosen)]
    first: list[Any] = [layout.Banner("quick", QUICK, "", [NOTE])] if quick else []
    if result is not None:
        own = verdict.contenders(_without_others(result))
        own = dataclasses.replace(own, heading=f"{own.heading} of seed {chosen.seed}")
        tables += [own, *unseen_report.tables_of(result)]
        ablations = study.tables(result)
        words += lines(result)
        if unseen is not None:
            tables.append(unseen_report.table(unseen))
            drawn = unseen_report.draw(unseen, directory.figures)
            words.insert(-1, on_unseen(unseen))
            words = [*unseen_report.in_short(result, unseen), *words]
        if not quick:
            first.append(_banner(result, words))
    print_end([*ablations, *tables], findings, words, quick)

    of_all = [one for each in members for one in records[each.name][-1:]]
    spent = [{"frames": sum(one["frames"] for one in of_all)}] if of_all else []
    first.append(facts_of(saved, spent, result, directory.path if loadable else None))
    captions = {**CAPTIONS, **study.captions, **SPREAD, **drawn}
    captions |= caption_of_curves(result, saved["config"])
    images = {path.name: page.Image("", path, captions.get(path.name, captions["curves"]))
              for path in pictures(directory, list(study.captions))}  # fmt: skip
    if top := [name for name in (FITNESS, SCORES) if name in images]:
        first.append(layout.Beside([images.pop(name) for name in top]))
    first.append(page.Text("", [words[0], *findings]))
    rest = [page.Image(heading(name), each.path, each.caption) for name, each in images.items()]
    folded = fold(study.folds, ablations, saved)
    if unseen is not None:
        folded.insert(0, unseen_report.folded(unseen))
    title, subtitle = study.title(max(map(len, records.values())))
    subtitle = f"{len(members)} evolutions, {subtitle}"
    page.write_report(
        directory.report_path,
        title,
        subtitle,
        [*first, *tables, *rest, *folded],
    )


def _function(result: HeldOut, judged: Judgement) -> str:
    """Return the name of the evolution in the comparison."""
    return verdict.row_of(result, judged["learned"])["function"]


def _banner(result: HeldOut, words: list[str]) -> layout.Banner:
    found = result["together"]
    against = f"{_difference(found)} against {verdict.best_function(result)}"
    return layout.Banner(found["conclusion"], found["conclusion"].upper(), against, words[-1:])


def _difference(found: Judgement | Together) -> str:
    return estimate(found["difference"], *found["difference_interval"], sign=True)


def about_choice(members: list[Member], scores: list[float], chosen: Member) -> str:
    """Describe the spread of validation fitness and the evolution that is loaded."""
    return (
        f"{len(members)} evolutions, on validation seeds from {number(min(scores))} to "
        f"{number(max(scores))}; the best there, seed {chosen.seed}, is what the run stands for."
    )


def lines(result: HeldOut) -> list[str]:
    """Return a verdict on each evolution, and a joint verdict."""
    found = []
    for each in result["evolutions"]:
        row = verdict.row_of(result, each["learned"])
        found.append(
            f"Seed {each['seed']}: {each['conclusion']}, {estimate(row['iqm'], *row['interval'])}; "
            f"difference {_difference(each)}."
        )
    return [*found, summary(result, unseen_report.tasks_of(result))]


def summary(result: HeldOut, tasks: str = "") -> str:
    """Return the verdict on all evolutions together; arguments as for `verdict.outcome`."""
    found, best = result["together"], verdict.row_of(result, result["best_hand_written"])
    tuned = "best tuned" if best["tuning_frames"] else "best"
    worse = sum(each["conclusion"] == "worse" for each in result["evolutions"])
    below, above = found["difference_interval"]
    doubt = ""
    if found["conclusion"] == "undecided" and not below <= 0 <= above:
        doubt = ", as a t test of the evolutions does not confirm it"
    told = verdict.outcome(result, tasks)
    return (
        f"Better than the {tuned} hand-written one ({best['function']}, "
        f"{number(best['iqm'])}) in {found['better']} of {found['evolutions']} evolutions, "
        f"worse in {worse}. Mean of the evolutions {estimate(found['iqm'], *found['interval'])}, "
        f"difference {_difference(found)} (95% intervals, the evolution as the unit): "
        f"{found['conclusion']}{doubt}. {told.budget}"
    )


def on_unseen(unseen: Unseen) -> str:
    """Return the verdict of all evolutions over all unseen tasks."""
    everything = pooled(unseen)
    if everything is None:
        return unseen_report.conclusion_text(unseen)
    told = summary(everything, unseen_report.pooled_tasks(unseen))
    return f"On unseen tasks, untuned and normalised: {told}"


def table(members: list[Member], scores: list[float], result: HeldOut | None) -> page.Table:
    """Return the table of the evolutions."""
    columns = ["evolution", "validation"]
    cells: list[list[Any]] = [
        [f"seed {each.seed}", None if score == -math.inf else score]
        for each, score in zip(members, scores, strict=True)
    ]
    if result is None:
        return page.Table("Evolutions", columns, cells)
    for row, each in zip(cells, result["evolutions"], strict=True):
        learned = verdict.row_of(result, each["learned"])
        row += [learned["iqm"], learned["interval"], _difference(each)]
        row.append(each["conclusion"])
    found = result["together"]
    mean = ["all", None, found["iqm"], found["interval"], _difference(found)]
    cells.append([*mean, found["conclusion"]])
    best = verdict.best_function(result)
    columns += ["IQM", "95% interval", f"difference from {best}", "verdict"]
    unseen = result.get("unseen")
    if unseen is not None and (everything := pooled(unseen)):
        columns += [f"unseen: difference from {verdict.best_function(everything)}", "verdict there"]
        judged = {_function(everything, each): each for each in everything["evolutions"]}
        elsewhere: list[Judgement | Together] = [judged[each.name] for each in members]
        for row, one in zip(cells, [*elsewhere, everything["together"]], strict=True):
            row += [_difference(one), carried_by(one)]
    note = (
        "IQM: interquartile mean of held-out seeds, the same for all. The last row is the mean "
        "over evolutions; its intervals take the evolution as the unit."
    )
    return page.Table("Evolutions", columns, cells, note=note, highlight=len(cells) - 1)


def _without_others(result: HeldOut) -> HeldOut:
    """Return the comparison of the chosen evolution alone."""
    learned = result["learned"]
    others = {
        _function(result, each) for each in result["evolutions"] if each["learned"] != learned
    }
    return {
        **result,
        "variants": [row for row in result["variants"] if row["function"] not in others],
        "pairs": [each for each in result["pairs"] if each["learned"] == learned],
    }


def _draw_scores(result: HeldOut, path: Path) -> None:
    """Draw the score of every evolution, their mean, and the hand-written contenders."""
    found = result["together"]
    any_tuned = any(row["tuning_frames"] for row in result["variants"])
    learned = [verdict.row_of(result, each["learned"]) for each in result["evolutions"]]
    own = {row["function"] for row in learned}
    shown = [unseen_report.score_row(row) for row in learned]
    shown.append(ScoreRow(TOGETHER, found["iqm"], found["interval"], any_tuned))
    shown += [
        unseen_report.score_row(row)
        for row in result["variants"]
        if row["function"] not in own and (row["tuning_frames"] or not any_tuned)
    ]
    judged = {each["learned"]: unseen_report.difference(each) for each in result["evolutions"]}
    score_plots.plot_scores(
        shown,
        path,
        xlabel="fitness on held-out seeds, IQM",
        differences={**judged, TOGETHER: unseen_report.difference(found)},
        learned=TOGETHER,
        reference=result["best_hand_written"],
    )
