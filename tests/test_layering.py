"""Rules for the source text of the whole repository."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

import metaevo
from tests.processes import ROOT

LONGEST_FILE = 420

# Reading these formats runs code from the file. Checkpoints and policies are data.
UNSAFE = re.compile(
    r"\b(import|from|import_module\(.|__import__\(.)\s*"
    r"(pickle|cloudpickle|dill|joblib|marshal|shelve)\b"
    r"|\byaml(\.| import .*)(load|load_all|unsafe_load|unsafe_load_all|full_load|full_load_all)\b"
    r"|allow_pickle(?!=False)"
)
# Written in pieces, because this file is searched too.
MACHINE_TEXTS = tuple("".join(pieces) for pieces in [("/wo", "rk/"), ("/ro", "ot/")])
PRIVATE_FILES = tuple("".join(pieces) for pieces in [("DESIGN", ".md"), ("FACTS", ".md")])

PYTHON_FILES = sorted(
    path
    for folder in ("purerl", "metaevo", "experiments", "tests")
    for path in (ROOT / folder).rglob("*.py")
)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tracked_files() -> list[Path]:
    """All files that are, or are about to be, under version control."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [path for name in listing.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_code_is_executed_from_data():
    wrong = [
        f"{name_of(path)}: {line}"
        for path in PYTHON_FILES
        if not path.is_relative_to(ROOT / "tests")  # the tests of hostile files make some
        for line in path.read_text(encoding="utf-8").splitlines()
        if UNSAFE.search(line)
    ]
    assert wrong == []


def test_no_file_is_too_long():
    too_long = {}
    for path in PYTHON_FILES:
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > LONGEST_FILE:
            too_long[name_of(path)] = lines
    assert too_long == {}


def test_no_text_names_a_machine_or_a_private_file():
    wrong = []
    for path in tracked_files():
        content = path.read_bytes()
        if b"\0" in content:  # a picture, not a text
            continue
        text = content.decode("utf-8", errors="replace")
        wrong += [
            f"{name_of(path)}: {word}" for word in MACHINE_TEXTS + PRIVATE_FILES if word in text
        ]
    assert wrong == []


def test_set_up_names_no_package_host():
    """Whoever installs decides where packages come from."""
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert "://" not in pins
    for name in ("constraints.txt", "pyproject.toml", "Makefile", ".ci/run"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert not re.search(r"--(extra-)?index-url|--find-links|--trusted-host|tool\.uv", text)


CORE = "evolution", "parts", "tasks", "judging"
"""Rooms of metaevo that take typed objects; what a YAML file or flags say ends above them."""


def test_no_dict_of_settings_enters_core():
    wrong = []
    for path in (path for room in CORE for path in (ROOT / "metaevo" / room).rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef) or function.name.startswith("_"):
                continue
            arguments = function.args
            for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                kind = ast.unparse(each.annotation) if each.annotation else ""
                is_settings = re.search("settings|config|raw", each.arg) is not None
                if is_settings and re.search("PlainDict|PlainMapping|dict", kind):
                    wrong.append(f"{name_of(path)}: {function.name}({each.arg}: {kind})")
    assert wrong == []


def test_experiments_and_examples_import_public_names():
    """Of metaevo, as its users would: `import metaevo`, or names in `metaevo.__all__`."""
    wrong = []
    for path in (
        path for each in ("experiments", "examples") for path in (ROOT / each).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [each.name for each in getattr(node, "names", [])]
            if isinstance(node, ast.Import):
                found = [name for name in names if name.startswith("metaevo.")]
            elif isinstance(node, ast.ImportFrom) and node.module == "metaevo":
                found = [name for name in names if name not in metaevo.__all__]
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("metaevo."):
                found = [node.module] if node.module != "metaevo.__main__" else []
            else:
                found = []
            wrong += [f"{name_of(path)}: {name}" for name in found]
    assert wrong == []
