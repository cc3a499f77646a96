"""Store the comparison of a run in docs/results, where pages of the documentation show it.

python docs/record.py runs/evolve_value_loss/NAME docs/results/q_learning.json
"""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import yaml

from metaevo.comparison.unseen import carried
from metaevo.config import from_dict
from metaevo.reports.numbers import difference_text, estimate, score_text
from metaevo.reports.page import Table
from metaevo.studies import registry, tables, verdict


def of_run(run: Path) -> dict[str, Any]:
    """Return the record in docs/results for a run with a held-out comparison.

    Args:
        run: run directory.
    """
    evaluation = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))
    saved = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    where = saved["environment"]
    git = where["git"] or {"commit": "unknown", "dirty": False}
    unseen = evaluation.get("unseen", {})
    judged = evaluation if evaluation["variants"] else unseen  # judged on unseen tasks only
    learned = judged["learned"]  # of several evolutions the one that the run stands for
    compared = {each["other"]: each for each in judged["pairs"] if each["learned"] == learned}
    rows = []
    for each in evaluation["variants"]:
        pair = compared.get(each["name"])
        better = "" if pair is None else estimate(
            pair["probability_of_improvement"], *pair["probability_interval"], decimals=2
        )  # fmt: skip
        settings = ", ".join(f"{key} {value:g}" for key, value in each["settings"].items())
        rows.append([each["name"], score_text(each), better, settings])
    shown: list[dict[str, Any]] = []
    seeds = evaluation["variants"][0]["seeds"] if rows else 0
    note = {}
    if "study" in saved["config"]:
        shown = _of_study(saved["config"], evaluation)
        note = {"note": f"{seeds} fresh seeds per cell, with 95% intervals"}
    elif rows:
        title = f"{seeds} held-out seeds"
        which = learned.partition(" (")[0]
        columns = ["", "IQM [95%]", f"P({which} is better)", "tuned to"]
        shown.append({"title": title, "columns": columns, "rows": rows})
    if "evolutions" in evaluation:
        shown.insert(0, _evolutions(evaluation))
    if unseen:
        title = f"Unseen tasks, {unseen['variants'][0]['seeds']} seeds each"
        shown.append(_plain(tables.by_task(unseen, title, is_unseen=True)))
    best = judged["against_best"]
    words = ["python", *shlex.split(where["command_line"])[1:]]
    if "--run-dir" in words:  # a place on that machine
        at = words.index("--run-dir")
        del words[at : at + 2]
    words = [Path(word).name if word.startswith("/") else word for word in words]
    if words[:2] == ["python", "metaevo"]:  # the installed script
        words.insert(1, "-m")
    return {
        "date": str(where["started"])[:10],
        "commit": git["commit"][:9] + "+" * git["dirty"],
        "machine": {
            "processor": where["devices"][0].partition(" ")[2].replace("cpu", "CPU"),
            "cores": len(where["devices"]),
            **{key: value for key, value in where.items() if key in ("jax", "python")},
        },
        "command": shlex.join(words),
        **note,
        "verdict": judged["conclusion"],
        "difference": difference_text(best),
        "tables": shown,
    }


def _of_study(config: dict[str, Any], evaluation: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the additional tables in the report of a study."""
    kind = registry.find(config)
    study = kind.make(from_dict(kind.settings_class(config), config))
    return [_plain(each) for each in study.tables(evaluation)]


def _evolutions(evaluation: dict[str, Any]) -> dict[str, Any]:
    """Return the table of several evolutions, their mean and the best hand-written variant."""
    variants = {each["name"]: each for each in evaluation["variants"]}
    rows = []
    for each in evaluation["evolutions"]:
        row = variants[each["learned"]]
        name = f"evolution seed {each['seed']}"
        rows.append([name, score_text(row), difference_text(each), each["conclusion"]])
    found = evaluation["together"]
    name = "**mean of the evolutions**"
    rows.append([name, score_text(found), difference_text(found), found["conclusion"]])
    best = evaluation["best_hand_written"]
    columns = ["", "IQM [95%]", f"difference from {best} [95%]", "verdict"]
    if unseen := evaluation.get("unseen"):
        columns.append(f"on {len(unseen['tasks'])} unseen tasks")
        elsewhere = verdict.judgements(unseen)
        judged = [elsewhere[name] for name in verdict.judgements(evaluation)]
        for row, each in zip(rows, [*judged, unseen["together"]], strict=True):
            row.append(f"{difference_text(each)}, {carried(each)}")
    rows.append([best, score_text(variants[best]), *[""] * (len(columns) - 2)])
    title = f"{len(evaluation['evolutions'])} evolutions"
    return {"title": title, "columns": columns, "rows": rows}


def _plain(table: Table) -> dict[str, Any]:
    """Return a table of a report as docs/results stores it."""
    rows = [list(row) for row in table.rows]
    return {"title": table.heading, "columns": list(table.columns), "rows": rows}


if __name__ == "__main__":
    run, file = map(Path, sys.argv[1:])
    file.write_text(json.dumps(of_run(run), indent=1) + "\n", encoding="utf-8")
