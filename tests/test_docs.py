"""Names, commands and programs in the README and the documentation are valid."""

import ast
import importlib
import importlib.util
import itertools
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pages
import pytest
import yaml

import metaevo
from metaevo.commands.run_options import parse_settings
from tests.metaevo import evolving
from tests.processes import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
ALL = [ROOT / "README.md", *PAGES]
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in ALL}
RESULTS = sorted((DOCS / "results").glob("*.json"))
COMMANDS = {"evolve", "train", "sweep", "evaluate", "generality", "distill", "compare", "zoo"}
COMMANDS |= {"envs", "judge", "reproduce"}
FOLDERS = "configs|docs|examples|experiments|metaevo|purerl|tests"


def blocks(text: str, *languages: str) -> list[str]:
    return re.findall(rf"^```(?:{'|'.join(languages)})\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands_of(text: str, *verbs: str) -> list[list[str]]:
    found = []
    for block in blocks(text, "console", "bash"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["metaevo"] and words[1] in verbs:
                found.append(words[1:])
    return found


def after_flags(argv: list[str]) -> list[str]:
    """The values of a command line's flags, except where its own run is written."""
    pairs = itertools.pairwise(argv)
    return [value for flag, value in pairs if flag.startswith("--") and flag != "--run-dir"]


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="needs the extra docs")
def test_the_site_builds_without_external_resources(tmp_path):
    """Strictly: every page is in the navigation, and its links and references resolve."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for page in tmp_path.rglob("*.html"):
        html = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="?([^" >]+)', html)
        loaded += re.findall(r'<link[^>]* href="?([^" >]+)', html)
        assert [url for url in loaded if "//" in url] == [], page


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_to_files(name: str):
    """Links within the site, and headings, are checked where it is built."""
    links = re.findall(r"\]\(([^)\s#]+)[^)]*\)", TEXTS[name])
    made = {DOCS / "walkthrough.md"}
    targets = {link: ((ROOT / name).parent / link).resolve() for link in links}
    missing = [link for link, path in targets.items() if not path.exists() and path not in made]
    assert [link for link in missing if "://" not in link] == []


@pytest.mark.parametrize("name", sorted(set(TEXTS) - {"docs/explanation/first_edition.md"}))
def test_paths_named_on_a_page_exist(name: str):
    # A file that a command of the page makes, in runs/ or elsewhere, is no file of ours.
    missing = [
        path
        for path in re.findall(rf"(?<![\w/.])(?:{FOLDERS})/[\w/.-]*\w/?", TEXTS[name])
        if not (ROOT / path).exists()
    ]
    assert missing == []


def test_pages_that_the_code_names_exist():
    listed = subprocess.run(
        ["git", "ls-files", "Makefile", "configs", "examples", "experiments", "metaevo", "purerl",
         "tests"], cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not in a git repository")
    missing = [
        f"{name}: {page}"
        for name in listed.stdout.split()
        if (ROOT / name).suffix not in (".png", ".npz") and (ROOT / name).is_file()
        for page in re.findall(r"docs/[\w/-]+\.md", (ROOT / name).read_text(encoding="utf-8"))
        if not (ROOT / page).is_file()
    ]
    assert missing == []


@pytest.mark.parametrize("name", TEXTS)
def test_documented_commands_exist(name: str):
    commands = "\n".join(blocks(TEXTS[name], "console", "bash", "yaml"))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmetaevo ([a-z_]+)\b", commands)) <= COMMANDS
    assert set(re.findall(r"^make ([a-z-]+)", commands, re.MULTILINE)) <= targets
    for config in re.findall(r"--config ([\w/.-]+)", commands):
        assert config.startswith(("runs/", "FILE")) or (ROOT / config).is_file(), config


class ParsedError(Exception):
    """The settings of a command line are valid; the run would begin now."""


@pytest.mark.parametrize("name", TEXTS)
def test_settings_of_documented_commands_are_valid(name: str, monkeypatch, tmp_path):
    def parse_and_stop(*args: Any, **kwargs: Any) -> None:
        parse_settings(*args, **kwargs)
        raise ParsedError

    own = tmp_path / "my_loss.py"
    own.write_text((ROOT / "examples" / "tilted.py").read_text(encoding="utf-8"))
    for command in commands_of(TEXTS[name], "evolve", "train", "sweep"):
        verb, *argv = [str(own) if word == "my_loss.py" else word for word in command]
        if any(word in ("--resume", "FILE") or "$" in word for word in argv):
            continue
        if any(re.match(r"runs/|RUN$", word) for word in after_flags(argv)):  # of an earlier run
            continue
        module = importlib.import_module(f"metaevo.commands.{verb}")
        monkeypatch.setattr(module, "parse_settings", parse_and_stop)
        monkeypatch.chdir(ROOT)
        with pytest.raises(ParsedError):
            module.main(argv)


@pytest.mark.parametrize("name", ["docs/how-to/formula.md", "docs/how-to/tasks.md"])
def test_complete_settings_of_pages_can_be_evolved(name: str):
    complete = []
    for block in blocks(TEXTS[name], "yaml"):
        raw = yaml.safe_load(block)
        if {"evolve", "learner"} <= raw.keys():
            evolving.study_of(raw).check()
            complete.append(raw)
    assert complete


RUNNABLE = (
    "docs/how-to/cheap_talk.md",
    "docs/how-to/network.md",
    "docs/how-to/problem.md",
    "docs/how-to/shaping.md",
    "docs/reference/lpg.md",
    "docs/reference/q_learning.md",
    "docs/reference/zoo.md",
)
"""Pages whose blocks of Python are complete programs, which need no run."""


def run_small(program: str, **sizes: int) -> None:
    """Run a program in this folder with other numbers for some names."""
    for name, value in sizes.items():
        program = re.sub(rf'\b({name}"?(?:=| *: *))[\d_]+', rf"\g<1>{value}", program)
    Path("program.py").write_text(program, encoding="utf-8")
    runpy.run_path("program.py")


@pytest.mark.long
@pytest.mark.parametrize("name", RUNNABLE)
@pytest.mark.filterwarnings("default")
def test_complete_programs_of_pages_run(name: str, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("examples", "experiments"):
        Path(folder).symlink_to(ROOT / folder)
    sizes = {"total_timesteps": 2048, "num_envs": 4, "num_steps": 16, "seeds": 1, "generations": 8}
    run_small("\n".join(blocks(TEXTS[name], "python")), **sizes)


@pytest.mark.long
@pytest.mark.filterwarnings("default")
def test_the_tutorial_runs(tmp_path: Path, monkeypatch):
    programs = blocks(TEXTS["docs/tutorial.md"], "python")
    sizes = {"population_size": 4, "generations": 2, "settings": 2, "seeds": 4}
    sizes |= {"validation_seeds": 2, "seeds_per_candidate": 1, "total_timesteps": 1000}
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    run_small("\n".join(each for each in programs if "def " not in each), **sizes)
    assert Path("runs/tutorial/report.html").exists()


@pytest.mark.parametrize("name", [name for name in TEXTS if "<!-- begin" in TEXTS[name]])
def test_generated_blocks_are_current(name: str):
    assert TEXTS[name] == pages.filled(TEXTS[name]), "make pages writes them anew"


@pytest.mark.parametrize("name", TEXTS)
def test_python_of_a_page_is_python(name: str):
    for block in blocks(TEXTS[name], "python"):
        for node in ast.walk(ast.parse(block)):
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            if node.module.split(".")[0] in ("metaevo", "purerl"):
                module = importlib.import_module(node.module)
                for alias in node.names:
                    assert (
                        hasattr(module, alias.name)
                        or importlib.util.find_spec(f"{node.module}.{alias.name}") is not None
                    ), f"{node.module} has no {alias.name}"


def test_every_public_name_is_on_the_page_of_python():
    page = TEXTS["docs/reference/api.md"]
    names = set(re.findall(r"metaevo\.(\w+)", page))
    assert {name for name in metaevo.__all__ if not name.startswith("_")} <= names


def test_the_part_of_the_readme_is_the_example():
    def code(text: str) -> str:
        return text[text.index("from dataclasses") :]

    example = (ROOT / "examples" / "tilted.py").read_text(encoding="utf-8")
    assert code(example) in [code(block) for block in blocks(TEXTS["README.md"], "python")[1:]]


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_results_record_their_origin(path: Path):
    text = path.read_text(encoding="utf-8")
    content = json.loads(text)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", content["date"])
    assert re.fullmatch(r"[0-9a-f]{7,}\+?|unknown", content["commit"])
    assert content["command"].startswith("python ")
    assert content["machine"]["processor"]
    assert not re.search(r"/(home|root|tmp|work)/", text)
    shown = re.compile(rf"generated: results {path.stem}\b|results/{path.name}")
    assert any(shown.search(page) for page in TEXTS.values()), "no page shows it"
