"""The card of an entry of the zoo, in words."""

from typing import Any

from metaevo.comparison.generality import rows
from metaevo.comparison.generality.result import interval_of
from metaevo.components import seen, zoo
from metaevo.config.plain import PlainDict, PlainMapping
from metaevo.config.validation import flatten
from metaevo.reports.numbers import difference_text, score_text
from metaevo.reports.page import Table

SEEN = ["task", "environment", "changed settings", "drawn in every generation"]
"""Columns of the table of tasks that a rule has seen."""


def text_of(entry: zoo.Entry) -> str:
    """Return a card for a terminal."""
    card = entry.card
    fills = f"fills {card['slot']}" + (f" of {card['learner']}" if card["learner"] else "")
    lines = [
        f"{entry.name}, version {card['version']}: {card['title']}",
        "",
        f"  use        --{card['slot']} {entry.name}, metaevo.load({entry.name!r})",
        f"  slot       {fills}",
    ]
    settings = _words(card["settings"])
    if entry.function is not None:
        lines.append(f"  function   the hand-written {entry.function}")
    elif card["component"] is None:
        lines.append(f"  network    {settings}")
    else:
        lines.append(f"  component  {card['component']} ({settings})")
    lines += [f"  {name:10} {text}" for name, text in _origin(card["origin"])]
    lines += [
        f"  {'' if number else 'repeats':10} mean {measure}: {repeat['mean']:.4g} "
        f"(standard deviation {repeat['std']:.3g}, {repeat['seeds']} seeds)"
        for number, (measure, repeat) in enumerate(entry.repeats.items())
    ]
    row = rows.row_of(entry.function or entry.name)
    if row is not None:
        lines.append(
            f"  generality {interval_of(row['score'])} on {row['score']['tasks']} tasks "
            "(0 random play, 1 tuned PPO)"
        )
    if tasks := seen_tasks(card):
        lines += ["", Table("Tasks that it was evolved on", SEEN, tasks).text()]
    if card["held_out"]:
        lines += ["", _table(card["held_out"])]
    return "\n".join(lines)


def seen_tasks(card: PlainDict) -> list[list[str]]:
    """Return rows of the table `SEEN`; none for a rule that was not evolved on several tasks."""
    settings = card["origin"].get("config", {})
    if not settings.get("tasks"):
        return []
    found = []
    for task in seen.in_settings(settings):
        sections = {"env_params": task.env_params, **task.changes}
        changes = _words(flatten({key: each for key, each in sections.items() if each}), "; ")
        sample = _words({name: _rule(rule) for name, rule in task.sample.items()}, "; ")
        found.append([task.name, task.env, changes or "-", sample or "-"])
    return found


def _words(settings: PlainMapping, separator: str = ", ") -> str:
    return separator.join(f"{name} {value}" for name, value in settings.items())


def _rule(rule: Any) -> str:
    """Return a distribution in words: "log_uniform [0.1, 10]"."""
    return _words(rule) if isinstance(rule, dict) else str(rule)


def _origin(origin: PlainDict) -> list[tuple[str, str]]:
    if "reference" in origin:
        return [("published", origin["reference"]), ("measured", origin["command"])]
    seeds = ", ".join(map(str, origin["seeds"]))
    return [
        ("evolved", f"{origin['command']}  (commit {origin['commit']}, {origin['date']})"),
        ("", f"seeds {seeds}; {origin['frames']:,} steps"),
    ]


def _table(held_out: PlainDict) -> str:
    variants, best = held_out["variants"], held_out["against_best"]
    note = f"{best['learned']} against {best['other']}: {_verdict(best)}"
    if together := held_out["together"]:
        note += f"; {together['evolutions']} evolutions together: {_verdict(together)}"
    rows = [[row["name"], score_text(row)] for row in variants]
    score = f"IQM of {variants[0]['seeds']} held-out seeds [95% interval]"
    return Table(held_out["env"], ["", score], rows, note=f"{note}.").text()


def _verdict(pair: PlainDict) -> str:
    return f"{difference_text(pair)}, {pair['conclusion']}"
