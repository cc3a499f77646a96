"""Tables of the documentation, from files that experiments have stored and from settings."""

import dataclasses
import json
import pkgutil
import re
from pathlib import Path
from typing import Any

from experiments.discogen import cells
from metaevo.commands.generality import table as rules_table
from metaevo.config import dump_yaml
from metaevo.config.documentation import describe, settings_of
from metaevo.judging.generality.measured import recorded

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
KILLS = RESULTS / "kills"
SHARED = "purerl.parts.", "metaevo.evolution.", "metaevo.judging.", "metaevo.parts."
"""Where the bases of settings are whose fields are shown."""
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


def discogen() -> str:
    """Return the table of rules in DiscoGen's harness, by environment."""
    found = [json.loads(path.read_text()) for path in sorted((RESULTS / "discogen").glob("*.json"))]
    found.sort(key=lambda cell: cells.ENVIRONMENTS.index(cell["environment"]))
    return cells.table(found)


def zoo() -> str:
    """Return README.md of every entry of the zoo, as sections of a page."""
    pages = []
    for path in sorted(ZOO.glob("*/README.md")):
        text = path.read_text(encoding="utf-8").replace("# ", "## ", 1)
        pages.append(text.replace("(../../../../../docs/", "(../"))
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


def settings(section: str, path: str) -> str:
    """Return the table of the fields of a dataclass and of its shared bases.

    Args:
        section: section of the config.
        path: module and name of the class.
    """
    cls = pkgutil.resolve_name(path)
    shown = [each for each in cls.__mro__ if each.__module__.startswith(SHARED)]
    names = {key for each in [*shown, cls] for key in each.__annotations__}
    rows = [
        [f"`{section}.{key}`", describe(kind), _default(value), text]
        for key, kind, value, text in settings_of(cls)
        if key in names
    ]
    return markdown(["setting", "type", "default", "meaning"], rows, ":---")


def _default(value: Any) -> str:
    """Return a default value in YAML syntax."""
    if value is dataclasses.MISSING:
        return ""
    if dataclasses.is_dataclass(value):
        return f"`{type(value).__name__}`"
    return f"`{dump_yaml([value], flow=True).strip()[1:-1]}`"
