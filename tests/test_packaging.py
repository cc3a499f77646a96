"""Declared, pinned and shipped packages match the imports."""

import ast
import importlib
import importlib.metadata
import os
import pkgutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.processes import ROOT

PACKAGES = ("purerl", "metaevo")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PYTHONS = ("3.11", "3.12", "3.13")


def requirements(lines: Iterable[str]) -> dict[str, Requirement]:
    return {canonicalize_name((one := Requirement(line)).name): one for line in lines}


def third_party_imports(path: Path) -> Iterator[tuple[str, bool]]:
    """The top-level modules that a file imports, and whether it does so at its top."""
    ours = {*PACKAGES, "experiments", *(script.stem for script in path.parent.glob("*.py"))}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    at_top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            modules = [node.module]
        for module in {name.split(".")[0] for name in modules} - ours:
            if module not in sys.stdlib_module_names:
                yield module, id(node) in at_top


def test_every_third_party_import_is_declared():
    """Imports at the top of a module need a core dependency, later ones at least an extra."""
    core = set(requirements(PROJECT["dependencies"]))
    optional = [line for name, lines in EXTRAS.items() if name != "dev" for line in lines]
    optional.append("discogen")  # in an environment of its own: make discogen
    providers = importlib.metadata.packages_distributions()
    wrong = []
    for path in (p for folder in (*PACKAGES, "experiments") for p in (ROOT / folder).rglob("*.py")):
        for module, is_at_top in third_party_imports(path):
            names = {canonicalize_name(name) for name in providers.get(module, [module])}
            if not names & (core if is_at_top else core | set(requirements(optional))):
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert wrong == []


@pytest.mark.smoke
@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_imports(package: str):
    root = importlib.import_module(package)
    for module in pkgutil.walk_packages(root.__path__, prefix=f"{package}."):
        importlib.import_module(module.name)


def test_set_up_tries_every_python_by_running_it(tmp_path: Path):
    """The names on the PATH are pyenv's shims for Pythons that are not there; it has another."""

    def program(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    for name in ("python3", *(f"python{version}" for version in PYTHONS)):
        program(tmp_path / "shims" / name, f"echo 'pyenv: {name}: command not found' >&2; exit 127")
    venv = tmp_path / "venv"
    makes_venv = f'[ "$2" != venv ] || {{ mkdir -p {venv}/bin && cp "$0" {venv}/bin/python; }}'
    program(tmp_path / ".pyenv" / "versions" / "3.12.9" / "bin" / "python", makes_venv)
    environment = {"HOME": str(tmp_path), "PATH": f"{tmp_path / 'shims'}:/usr/bin:/bin"}
    command = ["make", "-C", str(ROOT), "setup", f"VENV={venv}"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert (venv / "bin" / "python").is_file()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = importlib.import_module("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    folder = tmp_path_factory.mktemp("wheel")
    return Path(next(builder.build(directory=str(folder), versions=["standard"])))


def test_a_wheel_contains_all_files_of_the_command(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (entry_points,) = [name for name in names if name.endswith("/entry_points.txt")]
        assert "metaevo = metaevo.__main__:main" in archive.read(entry_points).decode()
    presets = {
        f"metaevo/presets/{path.relative_to(ROOT / 'configs').as_posix()}"
        for path in (ROOT / "configs").rglob("*.yaml")
    }
    sources = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for suffix in ("py", "html", "txt", "json", "npz", "png", "yaml")
        for path in (ROOT / package).rglob(f"*.{suffix}")
    }
    assert presets | sources <= names
    others = {name.split("/")[0] for name in names} - {*PACKAGES}
    assert others == {f"metaevo-{PROJECT['version']}.dist-info"}


@pytest.mark.slow
def test_an_installed_copy_works_without_the_repository(wheel: Path, tmp_path: Path):
    """In an environment that finds everything else where this one has it."""
    venv.create(tmp_path / "venv", with_pip=False)
    scripts = tmp_path / "venv" / "bin"
    install = [sys.executable, "-m", "pip", "--python", str(scripts / "python"), "install", "-q"]
    subprocess.run([*install, "--no-deps", "--disable-pip-version-check", str(wheel)], check=True)
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    # As a plain path: the link to this checkout, which is in there too, has no effect.
    (site / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    away = tmp_path / "away"
    away.mkdir()
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def metaevo(line: str, code: int = 0) -> str:
        done = subprocess.run(
            [scripts / "metaevo", *line.split()],
            cwd=away, env=environment, capture_output=True, text=True, timeout=500,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    assert metaevo("--version") == f"metaevo {PROJECT['version']}\n"
    assert "metaevo train --quick" in metaevo("train --help")
    metaevo("train --config train/ppo_cartpole --quick --run-dir trained")
    assert (away / "trained" / "report.html").is_file()
    metaevo("evolve --quick --run-dir evolved")
    assert (away / "evolved" / "scores.npz").is_file()
    assert "Quick look" in (away / "evolved" / "report.html").read_text()
    assert "needs the repository" in metaevo("reproduce grid-world", code=2)
    where = [scripts / "python", "-c", "import metaevo; print(metaevo.__file__)"]
    found = subprocess.run(where, cwd=away, env=environment, capture_output=True, text=True)
    assert Path(found.stdout.strip()).is_relative_to(tmp_path)
