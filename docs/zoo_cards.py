"""Cards of the zoo's entries."""

import json
from typing import Any

from result_tables import ROOT, markdown

from metaevo.comparison.generality import rows
from metaevo.comparison.generality.result import interval_of
from metaevo.components.zoo import Entry
from metaevo.discovery.zoo_card import SEEN, seen_tasks
from metaevo.reports.numbers import estimate, number, score_text

ZOO = ROOT / "metaevo" / "components" / "zoo" / "entries"


def zoo() -> str:
    """Return the cards of the zoo's entries."""
    cards = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(ZOO.glob("*/*.json"))]
    if not cards:
        raise ValueError(f"{ZOO} has no entries")
    return "\n\n".join(map(_card, cards))


def _card(card: dict[str, Any]) -> str:
    name, origin = card["name"], card["origin"]
    used = f"--{card['slot']} zoo:{name}"
    facts = [
        ["use", f'`{used}`, `metaevo.load("zoo:{name}")`'],
        ["slot", f"`{card['slot']}`" + (f" of {card['learner']}" if card["learner"] else "")],
    ]
    if card["function"] is not None:
        facts += [
            ["hand-written", f"`{card['function']}`: {origin['formula']}"],
            ["published", origin["reference"]],
        ]
    else:
        settings = ", ".join(f"{key} {value}" for key, value in card["settings"].items())
        seeds = ", ".join(map(str, origin["seeds"]))
        facts += [
            ["component", f"`{card['component']}` ({settings})"]
            if card["component"]
            else ["network", settings],
            ["evolved by", f"`{origin['command']}`, commit {origin['commit']}, {origin['date']}"],
            ["evolution seeds", f"{seeds}; {origin['frames']:,} steps in all"],
        ]
    for measure, repeat in Entry(ZOO / name, card).repeats.items():
        facts.append(
            [
                f"`metaevo zoo repeat {name}`",
                f"mean {measure}: {number(repeat['mean'])} (standard deviation "
                f"{number(repeat['std'])}, {repeat['seeds']} seeds)",
            ]
        )
    row = rows.row_of(card["function"] or f"zoo:{name}")
    if row is not None:
        score = row["score"]
        text = f"{interval_of(score)} on {score['tasks']} tasks (0 random play, 1 tuned PPO)"
        facts.append(["[generality](../explanation/generality.md)", text])
    title = card["title"][:1].upper() + card["title"][1:]
    parts = [f"## {name}", f"{title}. Version {card['version']}."]
    parts.append(markdown(["entry", f"`{name}`"], facts, ":---"))
    if tasks := seen_tasks(card):
        parts += ["Tasks that it was evolved on:", markdown(SEEN, tasks, ":---")]
    if card["held_out"] is not None:
        parts.append(_held_out(card["held_out"]))
    if "picture.png" in card["files"]:
        parts.append(f"![What {name} does](../images/zoo/{name}.png)")
    return "\n\n".join(parts)


def _held_out(found: dict[str, Any]) -> str:
    """Return the table of a card: the entry and the hand-written functions."""
    lines = [
        [row["name"], score_text(row), f"{row['tuning_frames']:,}"] for row in found["variants"]
    ]
    seeds = found["variants"][0]["seeds"]
    title = f"{found['env']}, {found['frames_per_agent']:,} steps, {seeds} held-out seeds"
    best = found["against_best"]
    verdicts = [(f"{best['learned']} against {best['other']}", best)]
    if found["together"] is not None:
        verdicts.append(
            (f"{found['together']['evolutions']} evolutions together", found["together"])
        )
    sentences = [
        f"{text}: {estimate(each['difference'], *each['difference_interval'])}, "
        f"{each['conclusion']}."
        for text, each in verdicts
    ]
    table = markdown([title, "IQM [95%]", "steps of tuning"], lines)
    return f"{table}\n\n{' '.join(sentences)}"
