"""What MkDocs calls while it builds the site, and what puts a run's comparison into docs/results.

A line `{{ results("ppo") }}` of a page becomes the tables of docs/results/ppo.json, with the day,
the machine and the command below them; `{{ results("ppo", "CartPole-v1") }}` only the table of that
title. The files are written by `experiments/benchmark.py SUITE --save FILE`, and by this one from a
run's evaluation.json and config.yaml:

    python docs/hooks.py runs/evolve_value_loss/NAME docs/results/q_learning.json
"""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
MACRO = re.compile(r'\{\{ results\("([\w/-]+)"(?:, "([^"]+)")?\) \}\}')


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace every macro of a page."""
    return MACRO.sub(lambda found: render(found[1], found[2]), markdown)


def render(name: str, title: str | None = None) -> str:
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
        parts.append(_markdown(table["columns"], table["rows"]))
    return "\n\n".join([*parts, _origin(content)])


def _markdown(columns: list[str], rows: list[list[Any]]) -> str:
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)


def _origin(content: dict[str, Any]) -> str:
    """Say where the numbers come from: day, machine and command."""
    machine = content["machine"]
    cores = f"{machine['cores']} cores" if machine.get("cores") else ""
    jax = f"jax {machine['jax']}" if machine.get("jax") else ""
    about = [content["date"], machine.get("processor"), cores, jax, content.get("note")]
    words = ", ".join(part for part in about if part)
    return f"<small>{words}. `{content['command']}`</small>"


def of_run(run: Path) -> dict[str, Any]:
    """Return what docs/results keeps of a run that ended with a held-out comparison.

    Args:
        run: its directory.
    """
    import yaml

    evaluation = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))
    saved = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    where = saved["environment"]
    compared = {each["other"]: each for each in evaluation["pairs"]}
    rows = []
    for each in evaluation["variants"]:
        pair = compared.get(each["name"])
        better = "" if pair is None else _interval(
            pair["probability_of_improvement"], pair["probability_interval"], ".2f"
        )  # fmt: skip
        settings = ", ".join(f"{key} {value:g}" for key, value in each["settings"].items())
        rows.append([each["name"], _interval(each["iqm"], each["interval"]), better, settings])
    verdict = compared[evaluation["best_hand_written"]]
    command = shlex.split(where["command_line"])
    command = ["python", *command[1:]] if "python" in command[0] else command
    return {
        "date": str(where["started"])[:10],
        "commit": where["git"],
        "machine": {
            "processor": ", ".join(where["devices"][:1]),
            "cores": len(where["devices"]),
            **{key: value for key, value in where.items() if key in ("jax", "python")},
        },
        "command": shlex.join(command),
        "verdict": evaluation["conclusion"],
        "difference": _interval(verdict["difference"], verdict["difference_interval"]),
        "tables": [
            {
                "title": f"{evaluation['variants'][0]['seeds']} held-out seeds",
                "columns": ["", "IQM [95%]", "P(learned is better)", "tuned to"],
                "rows": rows,
            }
        ],
    }


def _interval(value: float, interval: list[float], form: str = ".1f") -> str:
    return f"{value:{form}} [{interval[0]:{form}}, {interval[1]:{form}}]"


if __name__ == "__main__":
    run, file = map(Path, sys.argv[1:])
    file.write_text(json.dumps(of_run(run), indent=1) + "\n", encoding="utf-8")
