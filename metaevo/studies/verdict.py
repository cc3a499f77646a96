"""Verdicts of a judgement for the top of a report and for the terminal."""

from metaevo.judging.scores import Scores
from metaevo.judging.verdict import Verdict
from metaevo.reports import layout
from metaevo.reports.numbers import estimate

NOT_WORSE = 0.1
"""On unseen tasks a rule is not worse if it loses less than this, on the scale from 0 (random play)
to 1 (the tuned reference)."""


def margin_of(scores: Scores, *, is_unseen: bool) -> float:
    """Return the loss below which a contender is not worse; scores without a scale have none."""
    return NOT_WORSE if is_unseen and scores.scale is not None else 0.0


def verdict_of(
    scores: Scores, task: str | None = None, *, is_unseen: bool = False
) -> Verdict | str:
    """Return the verdict on a task or over all, or the reason why there is none."""
    margin = 0.0 if task else margin_of(scores, is_unseen=is_unseen)
    try:
        return scores.verdict(task=task, margin=margin)
    except ValueError as error:
        return f"No verdict: {error}."


def banner(scores: Scores, *, is_unseen: bool = False) -> layout.Banner:
    """Return the verdict as a coloured box."""
    where = f"{len(scores.pooled)} unseen tasks" if is_unseen else ""
    if not is_unseen and len(scores.tasks) > 1:
        where = f"{len(scores.pooled)} tasks of the evolution"
    found = verdict_of(scores, is_unseen=is_unseen)
    if isinstance(found, str):
        return layout.Banner("undecided", where.upper(), "", [found])
    text = f"{found.word} on {where}" if where else found.word
    numbers = f"{estimate(found.difference, *found.interval, sign=True)} against {found.baseline}"
    kind = found.word if found.word in ("better", "worse") else "undecided"
    return layout.Banner(kind, text.upper(), numbers, [str(found)])
