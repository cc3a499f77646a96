"""Tables and pictures of the documentation, from files that experiments have stored."""

import json
import re
from pathlib import Path
from typing import Any

from metaevo.commands.generality import table as rules_table
from metaevo.judging.generality.measured import recorded

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
KILLS = RESULTS / "kills"
ZOO = ROOT / "metaevo" / "parts" / "zoo" / "entries"


def markdown(columns: list[str], rows: list[list[Any]], rule: str = "---:") -> str:
    """Return a table; `rule` aligns all columns but the first."""
    lines = [columns, ["---", *[rule] * (len(columns) - 1)], *rows]
    escaped = ([re.sub(r"(?<!\\)\|", r"\\|", str(cell)) for cell in cells] for cells in lines)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in escaped)


def results(name: str, title: str | None = None) -> str:
    """Return the tables of docs/results/NAME.json as markdown.

    Args:
        name: of the file.
        title: of the only table to show.

    Raises:
        ValueError: if there is no such file or table.
    """
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        raise ValueError(f'results("{name}"): docs/results/{path.name} does not exist')
    content = json.loads(path.read_text(encoding="utf-8"))
    tables = [each for each in content["tables"] if title in (None, each["title"])]
    if not tables:
        titles = ", ".join(each["title"] for each in content["tables"])
        raise ValueError(f'results("{name}", "{title}"): no such table; there are: {titles}')
    parts = []
    for table in tables:
        if len(tables) > 1:
            parts.append(f"**{table['title']}**")
        parts.append(markdown(table["columns"], table["rows"]))
    return "\n\n".join([*parts, _origin(content)])


def scores(name: str, title: str) -> str:
    """Return an SVG of the tuned contenders in a table of docs/results, the highest score first.

    Args:
        name: of the file.
        title: of the table; after the name it has the IQM and its interval, in a column or two.
    """
    content = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    (table,) = (each for each in content["tables"] if each["title"] == title)
    rows = []
    for name, *cells in table["rows"]:
        if not name.endswith(" (same hyperparameters)"):
            numbers = re.findall(r"-?[\d.]+", " ".join(cells[:2]))[:3]
            rows.append((name.removesuffix(" (tuned)"), *map(float, numbers)))
    rows.sort(key=lambda row: -row[1])
    low, high = min(row[2] for row in rows), max(row[3] for row in rows)
    ticks = range(20 * int(low // 20), int(high) + 20, 20)
    height = 28 * len(rows)

    def x(value: float) -> float:
        return round(110 + 350 * (value - ticks[0]) / (ticks[-1] - ticks[0]), 1)

    parts = [f'<svg class="scores" viewBox="0 0 480 {height + 24}" role="img">']
    for tick in ticks:
        parts.append(f'<path class="grid" d="M{x(tick)} 0V{height}"/>')
        parts.append(f'<text x="{x(tick)}" y="{height + 18}" text-anchor="middle">{tick}</text>')
    for index, (label, iqm, left, right) in enumerate(rows):
        y = 28 * index + 14
        kind = "learned" if label.startswith("learned") else "written"
        parts.append(f'<text x="100" y="{y + 4}" text-anchor="end">{label}</text>')
        parts.append(f'<path class="{kind}" d="M{x(left)} {y}H{x(right)}" stroke-width="4"/>')
        parts.append(f'<circle class="{kind}" cx="{x(iqm)}" cy="{y}" r="6"/>')
    return "".join([*parts, "</svg>"])


def kills() -> str:
    """Return the table of the runs that `python -m tests.faults.kills` killed."""
    counts = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(KILLS.glob("*.json"))]
    phases = list(dict.fromkeys(phase for each in counts for phase in each["phases"]))
    rows = []
    for each in counts:
        same = "yes" if each["equal to the uninterrupted run"] else "no"
        killed = [each["phases"].get(phase, 0) for phase in phases]
        rows.append([each["work"], each["kills"], *killed, same])
    command = "python -m tests.faults.kills NAME --kills N --seed 0 --json FILE"
    columns = ["run", "kills", *phases, "equal to the uninterrupted run"]
    return f"{markdown(columns, rows)}\n\n<small>`{command}`</small>"


def generality() -> str:
    """Return the rows of the benchmark of generality, the highest score first."""
    table = rules_table(recorded())
    return f"{markdown(table.columns, table.rows)}\n\n<small>{table.note}</small>"


def zoo() -> str:
    """Return README.md of every entry of the zoo, as sections of a page."""
    pages = []
    for path in sorted(ZOO.glob("*/README.md")):
        text = path.read_text(encoding="utf-8").replace("# ", "## ", 1)
        pages.append(text.replace("(picture.png)", f"(../images/zoo/{path.parent.name}.png)"))
    return "\n".join(pages)


def _origin(content: dict[str, Any]) -> str:
    """Return a line with the day, the machine and the command."""
    machine = content["machine"]
    cores = f"{machine['cores']} cores" if machine.get("cores") else ""
    jax = f"jax {machine['jax']}" if machine.get("jax") else ""
    processor = machine.get("gpu") or machine.get("processor")
    about = [content["date"], processor, cores, jax, content.get("note")]
    words = ", ".join(part for part in about if part)
    return f"<small>{words}. `{content['command']}`</small>"
