"""A held-out comparison in words.

A comparison is the content of evaluation.json, or pools several tasks as
`metaevo.comparison.unseen.aggregate` does.
"""

from metaevo.comparison.unseen import carried
from metaevo.reports import layout, page
from metaevo.reports.numbers import difference_text, number, score_text
from metaevo.runs.schema import Carried, HeldOut, Judgement, ResultRow, Together, Unseen, pooled

UNSEEN, OF_EVOLUTION = "unseen tasks", "tasks of the evolution"
"""The two kinds of tasks that a comparison can pool."""


def row_of(result: HeldOut, name: str) -> ResultRow:
    """Return the variant with a name."""
    return next(row for row in result["variants"] if row["name"] == name)


def best_function(result: HeldOut) -> str:
    """Return the name of the best hand-written function."""
    return row_of(result, result["best_hand_written"])["function"]


def judgement(result: HeldOut) -> Judgement | Together:
    """Return the comparison with the best hand-written variant: of several evolutions, jointly."""
    return result.get("together", result["against_best"])


def judgements(result: HeldOut) -> dict[str, Judgement]:
    """Return the comparison of each evolution with the best variant, by learned function."""
    judged = result.get("evolutions", [result["against_best"]])
    return {row_of(result, each["learned"])["function"]: each for each in judged}


def word_of(unseen: HeldOut) -> Carried:
    """Return the verdict on a rule over all unseen tasks."""
    return carried(judgement(unseen))


def against(result: HeldOut) -> str:
    """Return the difference and the name of the best hand-written function."""
    return f"{difference_text(judgement(result))} against {best_function(result)}"


def pooled_tasks(judged: Unseen, kind: str) -> str:
    """Return the number and the kind of the tasks that are pooled."""
    return f"{len(judged['tasks']) - len(judged['without_scale'])} {kind}"


def tasks_of(result: HeldOut) -> str:
    """Return the number and the kind of the tasks that evaluation.json pools; "" for one task."""
    return pooled_tasks(result["seen"], OF_EVOLUTION) if "seen" in result else ""


def sentence(result: HeldOut, tasks: str) -> str:
    """Return the compared scores and their difference in words; arguments as for `banner`."""
    best = row_of(result, result["best_hand_written"])
    where = f" on each of {tasks}, normalised" if tasks else ""
    if "together" in result:
        return _of_evolutions(result, result["together"], best, where)
    learned, pair = row_of(result, result["learned"]), result["against_best"]
    return (
        f"{learned['function']} {number(learned['iqm'])}, "
        f"{best['function']} {number(best['iqm'])}, the best hand-written one "
        f"(interquartile mean over {learned['seeds']} held-out seeds{where}); "
        f"{page.difference(pair)}. Probability of improvement "
        f"{pair['probability_of_improvement']:.0%}."
    )


def _of_evolutions(result: HeldOut, found: Together, best: ResultRow, where: str) -> str:
    tuned = "best tuned" if best["tuning_frames"] else "best"
    worse = sum(each["conclusion"] == "worse" for each in result["evolutions"])
    below, above = found["difference_interval"]
    doubt = ""
    if found["conclusion"] == "undecided" and not below <= 0 <= above:
        doubt = "; a t test of the evolutions does not confirm it"
    return (
        f"Better than the {tuned} hand-written one ({best['function']}, {number(best['iqm'])}) "
        f"in {found['better']} of {found['evolutions']} evolutions, worse in {worse}. Mean of the "
        f"evolutions {score_text(found)}{where}, difference "
        f"{difference_text(found)} (95% intervals, the evolution as the unit){doubt}."
    )


def budget(result: HeldOut, tasks: str) -> str:
    """Describe the tuning of the learned and the best variant; arguments as for `banner`."""
    if "budget" in result:  # from the study
        return result["budget"]
    learned = row_of(result, result["learned"])
    best = row_of(result, result["best_hand_written"])
    tuned = [row for row in (learned, best) if row["tuning_frames"]]
    if not tuned:
        return "Neither was tuned: both have the run's hyperparameters."
    finalists, seeds = result["tuning_rounds"][-1]
    how = (
        f"by a race of {result['tuning_settings']} settings, the untuned one among them, the "
        f"last {finalists} on {seeds} fresh seeds ({tuned[0]['tuning_frames']:,} frames"
    )
    if len(tuned) == 2:
        return f"Each was tuned {how})."
    names = [learned["function"], best["function"]]
    if tasks:
        return (
            f"{names[0]} has the run's hyperparameters on every task; {names[1]} was tuned on each "
            f"of them {how} in all)."
        )
    who, other = names if tuned[0] is learned else names[::-1]
    return f"{who} was tuned {how}); {other} has the highest score with the run's hyperparameters."


def banner(result: HeldOut, tasks: str, word: str = "") -> layout.Banner:
    """Return the verdict for the top of a report and for the terminal.

    Args:
        result: the comparison.
        tasks: the tasks that it pools, such as "5 unseen tasks"; empty for a single task.
        word: the verdict; by default the conclusion.
    """
    conclusion = judgement(result)["conclusion"]
    text = f"{word or conclusion} on {tasks}" if tasks else conclusion
    paragraphs = [sentence(result, tasks), budget(result, tasks)]
    return layout.Banner(conclusion, text.upper(), against(result), paragraphs)


def unseen_banner(unseen: Unseen) -> layout.Banner:
    """Return the verdict over all unseen tasks."""
    everything = pooled(unseen)
    if everything is None:
        reason = (
            f"No verdict, because on none of {', '.join(unseen['tasks'])} is the tuned reference "
            "better than random play."
        )
        return layout.Banner("undecided", UNSEEN.upper(), "", [reason])
    return banner(everything, pooled_tasks(unseen, UNSEEN), word_of(everything))
