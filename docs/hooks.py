"""MkDocs hooks that build the site.

A line with one of these links becomes a table. Without the site the link leads to its source:

- `[Results: ppo](../results/ppo.json)`: the tables of the file, followed by day, machine and
  command; `[Results: ppo, CartPole-v1](...)`: only the table with this title;
- `[Scores: optimizer_ppo, 256 held-out seeds](...)`: a picture of the tuned rows of a table;
- `[Settings: `train`, `Config`](../../purerl/ppo.py)`: the settings of a section of the config,
  from the source of its dataclass;
- `[Table: kills](...)`: the table of docs/results/kills;
- `[Table: generality](...)`: the rows of the generality benchmark;
- `[Table: zoo](...)`: README.md of the zoo's entries, with their pictures.

The results are written by `experiments/benchmark.py SUITE --save FILE`, by `python -m
tests.faults.kills` and by docs/record.py.
"""

import base64
import json
import re
from pathlib import Path
from typing import Any

from result_tables import ROOT, ZOO, generality, kills, markdown, results, scores, zoo
from settings_table import settings

NOTEBOOK = ROOT / "examples" / "walkthrough.ipynb"
LINKS = {
    "results": re.compile(
        r"^\[Results: ([\w-]+)(?:, (.+))?\]\((?:\.\./)?results/\1\.json\)$", re.M
    ),
    "scores": re.compile(r"^\[Scores: ([\w-]+), (.+)\]\(results/\1\.json\)$", re.M),
    "settings": re.compile(r"^\[Settings: `([\w.]+)`, `(\w+)`\]\((?:\.\./)+([\w/]+\.py)\)$", re.M),
    "table": re.compile(r"^\[Table: (\w+)\]\(.+\)$", re.M),
}


def on_page_markdown(text: str, **_: Any) -> str:
    """Replace the links that stand for tables."""
    tables = {"kills": kills, "zoo": zoo, "generality": generality}
    text = LINKS["results"].sub(lambda found: results(*found.groups()), text)
    text = LINKS["scores"].sub(lambda found: scores(*found.groups()), text)
    text = LINKS["settings"].sub(lambda found: _settings(*found.groups()), text)
    return LINKS["table"].sub(lambda found: tables[found[1]](), text)


def _settings(section: str, name: str, file: str) -> str:
    columns = ["setting", "type", "default", "meaning"]
    return markdown(columns, settings(section, file, name), ":---")


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
