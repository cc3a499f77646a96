"""MkDocs hooks that build the site, and a command that stores a run's comparison in docs/results.

A line with one of these links becomes a table. Without the site the link leads to its source:

- `[Results: ppo](../results/ppo.json)`: the tables of the file, followed by day, machine and
  command; `[Results: ppo, CartPole-v1](...)`: only the table with this title;
- `[Scores: optimizer_ppo, 256 held-out seeds](...)`: a picture of the tuned rows of a table;
- `[Settings: `train`, `Config`](../../purerl/ppo.py)`: the settings of a section of the config,
  from the source of its dataclass;
- `[Table: kills](...)`: the table of docs/results/kills;
- `[Table: generality](...)`: the rows of the generality benchmark;
- `[Table: zoo](...)`: the cards of the zoo's entries, with their pictures.

The results are written by `experiments/benchmark.py SUITE --save FILE`, by `python -m
tests.faults.kills`, and by this file from a run's evaluation.json and config.yaml:

    python docs/hooks.py runs/evolve_value_loss/NAME docs/results/q_learning.json
"""

import ast
import base64
import importlib
import inspect
import itertools
import json
import re
import shlex
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
KILLS = RESULTS / "kills"
NOTEBOOK = ROOT / "examples" / "walkthrough.ipynb"
ZOO = ROOT / "metaevo" / "components" / "zoo" / "entries"
LINKS = {
    "results": re.compile(
        r"^\[Results: ([\w-]+)(?:, (.+))?\]\((?:\.\./)?results/\1\.json\)$", re.M
    ),
    "scores": re.compile(r"^\[Scores: ([\w-]+), (.+)\]\(results/\1\.json\)$", re.M),
    "settings": re.compile(r"^\[Settings: `([\w.]+)`, `(\w+)`\]\((?:\.\./)+([\w/]+\.py)\)$", re.M),
    "table": re.compile(r"^\[Table: (\w+)\]\(.+\)$", re.M),
}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the links that stand for tables."""
    tables = {"kills": kills, "zoo": zoo, "generality": generality}
    markdown = LINKS["results"].sub(lambda found: results(*found.groups()), markdown)
    markdown = LINKS["scores"].sub(lambda found: scores(*found.groups()), markdown)
    markdown = LINKS["settings"].sub(lambda found: settings(found[1], found[3], found[2]), markdown)
    return LINKS["table"].sub(lambda found: tables[found[1]](), markdown)


def on_files(files: Any, config: Any) -> Any:
    """Add the pictures of the zoo's entries and the notebook to the site."""
    from mkdocs.structure.files import File

    text, pictures = notebook(NOTEBOOK)
    files.append(File.generated(config, "walkthrough.md", content=text))
    for name, picture in pictures.items():
        files.append(File.generated(config, f"images/walkthrough/{name}", content=picture))

    for path in sorted(ZOO.glob("*/picture.png")):
        place = f"images/zoo/{path.parent.name}.png"
        files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def notebook(path: Path) -> tuple[str, dict[str, bytes]]:
    """Return a notebook with its stored outputs as markdown, and its pictures by file name."""
    parts, pictures = [], {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            source = source.replace("](../docs/", "](")
            parts.append(re.sub(r"\[([^\]]+)\]\(\.\./[^)]*\)", r"\1", source))  # not on the site
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                parts.append(f"```text\n{''.join(output['text']).rstrip()}\n```")
            elif "image/png" in output["data"]:
                name = f"{len(pictures)}.png"
                pictures[name] = base64.b64decode("".join(output["data"]["image/png"]))
                parts.append(f"![Output of the cell above](images/walkthrough/{name})")
    return "\n\n".join(parts), pictures


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
        parts.append(_markdown(table["columns"], table["rows"]))
    return "\n\n".join([*parts, _origin(content)])


def scores(name: str, title: str) -> str:
    """Return an SVG of the tuned contenders in a table of docs/results, the highest score first.

    Args:
        name: of the file.
        title: of the table; its second column holds `IQM [low, high]`.
    """
    content = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    (table,) = (each for each in content["tables"] if each["title"] == title)
    rows = [
        (row[0].removesuffix(" (tuned)"), *map(float, re.findall(r"-?[\d.]+", row[1])))
        for row in table["rows"]
        if row[0].endswith(" (tuned)")
    ]
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


def settings(section: str, file: str, name: str) -> str:
    """Return a table of the fields of a dataclass, and of its bases in `purerl.parts`.

    Args:
        section: of the config.
        file: with the class.
        name: of the class.
    """
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    cls = getattr(module, name)
    bases = [base for base in cls.__mro__[:0:-1] if base.__module__.startswith("purerl.parts.")]
    rows: dict[str, list[str]] = {}
    for made in [*bases, cls]:
        (found,) = ast.parse(textwrap.dedent(inspect.getsource(made))).body
        assert isinstance(found, ast.ClassDef)
        for field, after in itertools.pairwise([*found.body, None]):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                key = field.target.id
                is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                inherited = rows[key][-1] if key in rows else ""
                text = " ".join(ast.literal_eval(after.value).split()) if is_text else inherited
                default = "" if field.value is None else f"`{_default(field.value)}`"
                kind = _type(field.annotation).replace("|", "\\|")
                rows[key] = [f"`{section}.{key}`", kind, default, text]
    return _markdown(["setting", "type", "default", "meaning"], list(rows.values()), ":---")


def _type(annotation: ast.expr) -> str:
    """Return a type without its bounds: `int | None` for `Annotated[int, Ge(0)] | None`."""

    class Plain(ast.NodeTransformer):
        def visit_Subscript(self, node: ast.Subscript) -> Any:
            self.generic_visit(node)
            is_annotated = isinstance(node.value, ast.Name) and node.value.id == "Annotated"
            return (
                node.slice.elts[0] if is_annotated and isinstance(node.slice, ast.Tuple) else node
            )

    text = ast.unparse(Plain().visit(annotation))
    if text.startswith("Literal["):
        return text[8:-1].replace("'", "`")
    text = re.sub(r"tuple\[([\w ]+), \.\.\.\]", r"list of \1", text)
    return text.replace("PlainDict", "mapping")


def _default(value: ast.expr) -> str:
    """Return a default value in YAML syntax."""
    text = ast.unparse(value)
    factory = re.fullmatch(r"field\(default_factory=(\w+)\)", text)
    if factory:
        return {"dict": "{}", "tuple": "[]", "list": "[]"}.get(factory[1], factory[1])
    if isinstance(value, ast.Tuple):
        return f"[{', '.join(map(_default, value.elts))}]"
    words = {"None": "null", "True": "true", "False": "false"}
    return words.get(text, text.strip("'"))


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
    return f"{_markdown(columns, rows)}\n\n<small>`{command}`</small>"


def generality() -> str:
    """Return the rows of the benchmark of generality, the highest score first, with filters."""
    from metaevo.comparison.generality import leaderboard, rows

    found = rows.entered()
    note = f"Version {found[0]['version']}, {found[0]['seeds']} agents a task."
    return f"{leaderboard.html(found)}\n\n<small>{note} `metaevo generality RULE`</small>"


def zoo() -> str:
    """Return the cards of the zoo's entries."""
    cards = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(ZOO.glob("*/*.json"))]
    if not cards:
        raise ValueError(f"{ZOO} has no entries")
    return "\n\n".join(map(_card, cards))


def _card(card: dict[str, Any]) -> str:
    from metaevo.comparison.generality import rows
    from metaevo.components.zoo import Entry
    from metaevo.discovery.zoo_card import SEEN, seen_tasks

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
        form = _form([repeat["mean"]])
        facts.append(
            [
                f"`metaevo zoo repeat {name}`",
                f"mean {measure}: {repeat['mean']:{form}} (standard deviation "
                f"{repeat['std']:{form}}, {repeat['seeds']} seeds)",
            ]
        )
    row = rows.row_of(card["function"] or f"zoo:{name}")
    if row is not None:
        text = f"{rows.score_of(row)} on {row['score']['tasks']} tasks (0 random play, 1 tuned PPO)"
        facts.append(["[generality](../explanation/generality.md)", text])
    title = card["title"][:1].upper() + card["title"][1:]
    parts = [f"## {name}", f"{title}. Version {card['version']}."]
    parts.append(_markdown(["entry", f"`{name}`"], facts, ":---"))
    if tasks := seen_tasks(card):
        parts += ["Tasks that it has seen:", _markdown(SEEN, tasks, ":---")]
    if card["held_out"] is not None:
        parts.append(_held_out(card["held_out"]))
    if "picture.png" in card["files"]:
        parts.append(f"![What {name} does](../images/zoo/{name}.png)")
    return "\n\n".join(parts)


def _held_out(found: dict[str, Any]) -> str:
    """Return the table of a card: the entry and the hand-written functions."""
    form = _form([row["iqm"] for row in found["variants"]])
    rows = [
        [row["name"], _interval(row["iqm"], row["interval"], form), f"{row['tuning_frames']:,}"]
        for row in found["variants"]
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
        f"{text}: {_difference(each, form)}, {each['conclusion']}." for text, each in verdicts
    ]
    table = _markdown([title, "IQM [95%]", "steps of tuning"], rows)
    return f"{table}\n\n{' '.join(sentences)}"


def _markdown(columns: list[str], rows: list[list[Any]], rule: str = "---:") -> str:
    lines = [columns, ["---", *[rule] * (len(columns) - 1)], *rows]
    escaped = ([re.sub(r"(?<!\\)\|", r"\\|", str(cell)) for cell in cells] for cells in lines)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in escaped)


def _origin(content: dict[str, Any]) -> str:
    """Return a line with the day, the machine and the command."""
    machine = content["machine"]
    cores = f"{machine['cores']} cores" if machine.get("cores") else ""
    jax = f"jax {machine['jax']}" if machine.get("jax") else ""
    about = [content["date"], machine.get("processor"), cores, jax, content.get("note")]
    words = ", ".join(part for part in about if part)
    return f"<small>{words}. `{content['command']}`</small>"


def of_run(run: Path) -> dict[str, Any]:
    """Return the record in docs/results for a run with a held-out comparison.

    Args:
        run: run directory.
    """
    import yaml

    evaluation = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))
    saved = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    where = saved["environment"]
    git = where["git"] or {"commit": "unknown", "dirty": False}
    unseen = evaluation.get("unseen", {})
    judged = evaluation if evaluation["variants"] else unseen  # judged on unseen tasks only
    learned = judged["learned"]  # of several evolutions the one that the run stands for
    compared = {each["other"]: each for each in judged["pairs"] if each["learned"] == learned}
    rows = []
    form = _form([each["iqm"] for each in evaluation["variants"]])
    for each in evaluation["variants"]:
        pair = compared.get(each["name"])
        better = "" if pair is None else _interval(
            pair["probability_of_improvement"], pair["probability_interval"], ".2f"
        )  # fmt: skip
        score = _interval(each["iqm"], each["interval"], form)
        settings = ", ".join(f"{key} {value:g}" for key, value in each["settings"].items())
        rows.append([each["name"], score, better, settings])
    tables = []
    seeds = evaluation["variants"][0]["seeds"] if rows else 0
    note = {}
    if "study" in saved["config"]:
        tables = _of_study(saved["config"], evaluation)
        note = {"note": f"{seeds} fresh seeds per cell, with 95% intervals"}
    elif rows:
        title = f"{seeds} held-out seeds"
        which = learned.partition(" (")[0]
        columns = ["", "IQM [95%]", f"P({which} is better)", "tuned to"]
        tables.append({"title": title, "columns": columns, "rows": rows})
    if "evolutions" in evaluation:
        tables.insert(0, _evolutions(evaluation, form))
    if unseen:
        tables.append(_unseen(unseen))
    verdict = compared[judged["best_hand_written"]]
    words = ["python", *shlex.split(where["command_line"])[1:]]
    if "--run-dir" in words:  # a place on that machine
        at = words.index("--run-dir")
        del words[at : at + 2]
    words = [Path(word).name if word.startswith("/") else word for word in words]
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
        "difference": _interval(verdict["difference"], verdict["difference_interval"], form),
        "tables": tables,
    }


def _of_study(config: dict[str, Any], evaluation: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the additional tables in the report of a study."""
    from metaevo.config import from_dict
    from metaevo.studies import registry

    entry = registry.find(config)
    study = entry.make(from_dict(entry.settings(config, None), config))
    return [
        {"title": each.heading, "columns": list(each.columns), "rows": [*map(list, each.rows)]}
        for each in study.tables(evaluation)
    ]


def _evolutions(evaluation: dict[str, Any], form: str) -> dict[str, Any]:
    """Return the table of several evolutions, each tuned, and of their mean."""
    variants = {each["name"]: each for each in evaluation["variants"]}
    rows = []
    for each in evaluation["evolutions"]:
        row = variants[each["learned"]]
        difference = _interval(each["difference"], each["difference_interval"], form)
        score = _interval(row["iqm"], row["interval"], form)
        rows.append([f"evolution seed {each['seed']}", score, difference, each["conclusion"]])
    found = evaluation["together"]
    score = _interval(found["iqm"], found["interval"], form)
    difference = _interval(found["difference"], found["difference_interval"], form)
    rows.append(["**mean of the evolutions**", score, difference, found["conclusion"]])
    best = evaluation["best_hand_written"]
    return {
        "title": f"{len(evaluation['evolutions'])} evolutions",
        "columns": ["", "IQM [95%]", f"difference from {best} [95%]", "verdict"],
        "rows": rows,
    }


def _unseen(unseen: dict[str, Any]) -> dict[str, Any]:
    """Return the table of unseen tasks against contenders, and of all tasks normalised."""
    rows = []
    for task, result in {**unseen["tasks"], "**all, normalised**": unseen}.items():
        form = ".2f" if task.startswith("*") else ".4g"
        cells = [_interval(each["iqm"], each["interval"], form) for each in result["variants"]]
        found = result["against_best"]
        difference = _interval(found["difference"], found["difference_interval"], form)
        chance = _interval(
            found["probability_of_improvement"], found["probability_interval"], ".2f"
        )
        other = found["other"].partition(" (")[0]
        rows.append([task, *cells, f"{difference} ({other})", chance, found["conclusion"]])
    names = [each["name"].replace("same hyperparameters", "untuned") for each in unseen["variants"]]
    return {
        "title": f"Unseen tasks, {unseen['variants'][0]['seeds']} seeds each",
        "columns": ["", *names, "difference from the best", "P(learned is better)", "verdict"],
        "rows": rows,
    }


def _form(values: list[float]) -> str:
    """Return the format of a table's numbers: two decimals if all are below 10, else one."""
    return ".1f" if any(abs(each) >= 10 for each in values) else ".2f"


def _difference(pair: dict[str, Any], form: str) -> str:
    """Format a difference with its interval, with enough digits to be nonzero."""
    value = pair["difference"]
    vanishes = value and float(f"{value:{form}}") == 0
    return _interval(value, pair["difference_interval"], ".2g" if vanishes else form)


def _interval(value: float, interval: list[float], form: str = ".1f") -> str:
    return f"{value:{form}} [{interval[0]:{form}}, {interval[1]:{form}}]"


if __name__ == "__main__":
    run, file = map(Path, sys.argv[1:])
    file.write_text(json.dumps(of_run(run), indent=1) + "\n", encoding="utf-8")
