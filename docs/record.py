"""Store the comparison of a run in docs/results, where pages of the documentation show it.

python docs/record.py runs/evolve_value_loss/NAME docs/results/q_learning.json
"""

import json
import shlex
import sys
from pathlib import Path

from metaevo.config import from_dict
from metaevo.config.plain import PlainDict
from metaevo.judging import tables
from metaevo.judging.scores import Scores
from metaevo.reports.page import Table, estimate
from metaevo.runs.run_directory import SCORES, UNSEEN, RunDirectory
from metaevo.studies.evolutions import Evolutions
from metaevo.studies.settings import settings_class


def of_run(path: Path) -> PlainDict:
    """Return the record in docs/results for the directory of a run with a held-out comparison."""
    run = RunDirectory.open(path)
    saved, found = run.read_config(), {SCORES: run.scores_path, UNSEEN: run.unseen_path}
    scores = {name: Scores.load(file) for name, file in found.items() if file.exists()}
    judged = next(iter(scores.values()))
    verdict = judged.verdict(margin=0.0 if SCORES in scores else tables.NOT_WORSE)
    about = saved["environment"]
    return {
        "date": str(about["started"])[:10],
        "commit": about["commit"][:9] + "+" * about["commit"].endswith("+"),
        "machine": {
            "processor": about["devices"][0].partition(" ")[2].replace("cpu", "CPU"),
            "cores": len(about["devices"]),
            **{key: value for key, value in about.items() if key in ("jax", "python")},
        },
        "command": _command(about["command_line"]),
        "verdict": verdict.word,
        "difference": estimate((verdict.difference, verdict.interval), sign=True),
        "note": f"{judged.seeds} held-out seeds",
        "tables": [_plain(each) for each in _tables(path, saved["config"], scores)],
    }


def _command(line: str) -> str:
    """Return a command line without places on its machine."""
    words = ["python", *shlex.split(line)[1:]]
    if "--run-dir" in words:
        at = words.index("--run-dir")
        del words[at : at + 2]
    words = [Path(word).name if word.startswith("/") else word for word in words]
    if words[:2] == ["python", "metaevo"]:  # the installed script
        words.insert(1, "-m")
    return shlex.join(words)


def _tables(path: Path, config: PlainDict, scores: dict[str, Scores]) -> list[Table]:
    """Return the tables of a report: of several evolutions, contenders, and tasks."""
    settings = from_dict(settings_class(config), config)
    shown = []
    if sum(map(bool, next(iter(scores.values())).groups)) > 1:
        shown.append(Evolutions(path, settings).table(scores))
    own, unseen = scores.get(SCORES), scores.get(UNSEEN)
    if own is not None and len(own.tasks) > 1:
        shown.append(tables.by_task(own, f"Own tasks, {own.seeds} seeds each", is_unseen=False))
    elif own is not None:
        shown.append(tables.contenders(own, heading=f"{own.seeds} held-out seeds"))
    if unseen is not None:
        title = f"Unseen tasks, {unseen.seeds} seeds each"
        shown.append(tables.by_task(unseen, title, is_unseen=True))
    return shown


def _plain(table: Table) -> PlainDict:
    rows = [list(row) for row in table.texts]
    return {"title": table.heading, "columns": list(table.columns), "rows": rows}


if __name__ == "__main__":
    run, file = map(Path, sys.argv[1:])
    file.write_text(json.dumps(of_run(run), indent=1) + "\n", encoding="utf-8")
