"""MkDocs hook: examples/walkthrough.ipynb is a page of the site, with its stored outputs."""

import base64
import json
import re
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).resolve().parent.parent / "examples" / "walkthrough.ipynb"


def on_files(files: Any, config: Any) -> Any:
    """Add the notebook to the site."""
    from mkdocs.structure.files import File

    text, pictures = notebook(NOTEBOOK)
    files.append(File.generated(config, "walkthrough.md", content=text))
    for name, picture in pictures.items():
        files.append(File.generated(config, f"images/walkthrough/{name}", content=picture))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Let links to the notebook's file lead to its page."""
    return markdown.replace("(../examples/walkthrough.ipynb)", "(walkthrough.md)")


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
