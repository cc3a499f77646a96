"""The card of an entry of the zoo, in words."""

from metaevo.comparison.generality import rows
from metaevo.components import zoo
from metaevo.config.plain import PlainDict


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
    settings = ", ".join(f"{key} {value}" for key, value in card["settings"].items())
    if entry.function is not None:
        lines.append(f"  function   the hand-written {entry.function}")
    elif card["component"] is None:
        lines.append(f"  network    {settings}")
    else:
        lines.append(f"  component  {card['component']} ({settings})")
    lines += [f"  {name:10} {text}" for name, text in _origin(card["origin"])]
    repeat = card["repeat"]
    task = repeat["experiment"].get("task")
    measure = f"score on {task['env']}" if task else card["held_out"]["env"]
    lines.append(
        f"  repeats    mean {measure}: {repeat['mean']:.4g} "
        f"(standard deviation {repeat['std']:.3g}, {repeat['seeds']} seeds)"
    )
    row = rows.row_of(entry.function or entry.name)
    if row is not None:
        lines.append(
            f"  generality {rows.score_of(row)} on {row['score']['tasks']} tasks "
            "(0 random play, 1 tuned PPO)"
        )
    if card["held_out"]:
        lines += ["", *_table(card["held_out"])]
    return "\n".join(lines)


def _origin(origin: PlainDict) -> list[tuple[str, str]]:
    if "reference" in origin:
        return [("published", origin["reference"]), ("measured", origin["command"])]
    seeds = ", ".join(map(str, origin["seeds"]))
    return [
        ("evolved", f"{origin['command']}  (commit {origin['commit']}, {origin['date']})"),
        ("", f"seeds {seeds}; {origin['frames']:,} steps"),
    ]


def _table(held_out: PlainDict) -> list[str]:
    form = ".1f" if any(abs(row["iqm"]) >= 10 for row in held_out["variants"]) else ".2f"
    rows = [
        (row["name"], _interval(row["iqm"], row["interval"], form)) for row in held_out["variants"]
    ]
    width = max(len(name) for name, _ in rows)
    seeds = held_out["variants"][0]["seeds"]
    lines = [f"  {held_out['env']}, IQM of {seeds} held-out seeds [95%]"]
    lines += [f"    {name:{width}}  {score}" for name, score in rows]
    best = held_out["against_best"]
    difference = _interval(best["difference"], best["difference_interval"], form)
    lines.append(f"  {best['learned']} against {best['other']}: {difference}, {best['conclusion']}")
    if together := held_out["together"]:
        difference = _interval(together["difference"], together["difference_interval"], form)
        lines.append(
            f"  {together['evolutions']} evolutions together: {difference}, "
            f"{together['conclusion']}"
        )
    return lines


def _interval(value: float, interval: list[float], form: str) -> str:
    return f"{value:{form}} [{interval[0]:{form}}, {interval[1]:{form}}]"
