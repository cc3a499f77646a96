"""Run directories in which something is damaged, and what the scripts make of them.

The runs are complete ones by the scripts themselves. What they compile is kept, so that they can be
resumed thousands of times; pictures and pages at the end are left out.
"""

import contextlib
import copy
import functools
import io
import os
import shutil
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import metaevo
from metaevo import config
from metaevo.commands import compare as compare_script
from metaevo.commands import evaluate as transfer
from metaevo.commands import evolve as evolve_script
from metaevo.commands import sweep as sweep_script
from metaevo.commands import sync
from metaevo.commands import train as training
from metaevo.config import ConfigError, to_dict
from metaevo.runs import run_directory
from metaevo.runs.tracking import mirror
from metaevo.studies import run as evolution_run
from metaevo.studies.learner import LearnerStudy
from metaevo.training import result as training_result
from metaevo.training import run as training_run
from metaevo.tuning import run as sweep_run
from tests.faults.run_damage import damage

SETTINGS = {
    "evolve": """
train: {total_timesteps: 40, num_steps: 20}
component: {hidden_sizes: [2]}
strategy: {population_size: 4}
evolution: {generations: 6, seeds_per_candidate: 1, validation_every: 2, validation_seeds: 2,
            block_seconds: 1.0e-9}
evaluation: {seeds: 0}
run: {checkpoint_every: 2}
""",
    "train": """
train: {total_timesteps: 120, num_steps: 20}
seeds: 2
evaluation: {episodes: 0}
run: {log_every: 1, checkpoint_seconds: 0, block_seconds: 1.0e-9}
""",
    "sweep": """
train: {total_timesteps: 40, num_steps: 20}
sweep: {trials: 4, sampler: random, seeds: 2, confirm_seeds: 2}
space: {hyperparams.learning_rate: {log_uniform: [0.01, 0.9]}}
""",
}
SETTINGS["pbt"] = SETTINGS["sweep"].replace("random,", "random, scheduler: pbt,")
SETTINGS["pbt"] += "pbt: {rounds: 2}\n"
AGENT = """
learner: q_learning
task: {env: GridWorld, env_params: {size: 3, max_steps_in_episode: 10}}
"""
SECONDS = 300
"""After which a case counts as hanging."""


def evolve(argv: list[str]) -> int:
    """Run the script of an evolution."""
    return evolve_script.main(argv, component="value_loss", description=None)


def train(argv: list[str]) -> int:
    """Run the script of a training."""
    return training.main(argv, description=None)


def sweep(argv: list[str]) -> int:
    """Run the script of a sweep."""
    return sweep_script.main(argv, description=None)


SCRIPTS = {"evolve": evolve, "train": train, "sweep": sweep, "pbt": sweep}


def make(name: str, path: Path) -> Path:
    """Make a run of a kind, by its script, and send it to a tracker."""
    config = path.with_suffix(".yaml")
    config.write_text(AGENT + SETTINGS[name])
    assert SCRIPTS[name](["--config", str(config), "--run-dir", str(path)]) == 0
    assert send(path) == 0
    (path / "report.html").touch()  # which is left out
    return path


class ReachedError(BaseException):
    """All files are accepted; no handler of exceptions may hide that."""


class HangError(BaseException):
    """It takes too long."""


# --- What is kept between the cases, and what is left out ---------------------------------------


def _kept(function: Any, key: Callable[..., Any]) -> Any:
    """A function that answers the same to the same, and shares what it compiles."""
    known: dict[str, Any] = {}

    @functools.wraps(function)
    def answer(*arguments: Any, **options: Any) -> Any:
        text = repr(key(*arguments, **options))
        if text not in known:
            known[text] = function(*arguments, **options)
        return known[text]

    return answer


def _copied(function: Any) -> Any:
    """A function whose answers may be changed by those who get them."""
    known = functools.cache(function)
    return lambda *arguments: copy.deepcopy(known(*arguments))


def _settings(settings: Any, *_: Any, **__: Any) -> Any:
    return to_dict(settings)


def _of_population(task: Any, *_: Any, **options: Any) -> Any:
    return id(task.learner), options


def _with_resolved(_: Any, settings: Any, resolved: Any) -> Any:
    return to_dict(settings), [resolved.get(key) for key in ("chunk_size", "normalisation")]


class Sink:
    """A tracking service that takes everything."""

    id = "there"

    def log(self, records: list[Any]) -> None:
        """Take records."""

    def log_artifact(self, name: str, contents: dict[str, Path]) -> None:
        """Read the files, as a service does."""
        for each in contents.values():
            each.read_bytes()

    def finish(self, *, completed: bool) -> None:
        """Send what is left."""


class CheckedStudy(LearnerStudy):
    """A study that is checked once."""

    checked = False

    def check(self) -> None:
        """Find out what does not fit, unless that was done."""
        if not self.checked:
            super().check()
        self.checked = True


def _stop(*_: Any, **__: Any) -> None:
    raise ReachedError


@contextlib.contextmanager
def prepared() -> Iterator[None]:
    """Keep what is compiled, and leave out pictures, pages and git."""
    nothing = lambda *_, **__: None  # noqa: E731
    study = _kept(CheckedStudy, _settings)
    learner = evolve_script.registry.LEARNER
    entry = evolve_script.registry.STUDIES[learner]
    studies = {**evolve_script.registry.STUDIES, learner: entry._replace(make=study)}
    with contextlib.ExitStack() as stack:
        for module, name, value in (
            (evolve_script.registry, "STUDIES", studies),
            (evolution_run, "make_evolution", _kept(evolution_run.make_evolution, _with_resolved)),
            (evolution_run, "conclude", nothing),
            (CheckedStudy, "compare", _stop),
            (CheckedStudy, "draw", nothing),
            (training_run, "make_trainee", _kept(training_run.make_trainee, _settings)),
            (training_result, "check_training", nothing),
            (training_result, "Population", _kept(training_result.Population, _of_population)),
            (training_run.training_report, "finish", nothing),
            (sweep_script, "make_objective", _kept(sweep_script.make_objective, _settings)),
            (sweep_run, "write_sweep_report", nothing),
            (compare_script, "_show", nothing),
            (mirror, "open_remote", lambda *_: Sink()),
            (run_directory, "git_commit", nothing),
            (config, "parse_yaml", _copied(config.parse_yaml)),
        ):
            stack.enter_context(patch.object(module, name, value))
        yield


# --- Cases --------------------------------------------------------------------------------------


class Watch:
    """Notes what is opened, listed or removed below a directory."""

    def __init__(self) -> None:
        self.outside: str | None = None
        self.found: list[str] = []
        sys.addaudithook(self._hook)  # for as long as Python runs: there is one of it

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.outside is None or event not in ("open", "os.listdir", "os.scandir", "os.remove"):
            return
        path = arguments[0]
        if not isinstance(path, str | bytes | os.PathLike):
            return
        text = os.fspath(path)
        text = os.fsdecode(text)
        followed = not (event == "open" and arguments[2] & os.O_NOFOLLOW) and event != "os.remove"
        head, tail = os.path.split(os.path.abspath(text))
        real = os.path.realpath(text) if followed else os.path.join(os.path.realpath(head), tail)
        if real.startswith(self.outside):
            self.found.append(f"{event} {text}")


def _contents(folder: Path) -> dict[str, Any]:
    paths = sorted(folder.rglob("*"))
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in paths
    }


def _hang(*_: Any) -> None:
    raise HangError


def operations(name: str, run: Path) -> dict[str, Callable[[], Any]]:
    """What is done with a run directory."""
    script = SCRIPTS[name]
    where = ["--run-dir", str(run)]
    found: dict[str, Callable[[], Any]] = {
        "compare_runs": lambda: compare_script.main(
            [str(run), "--output", str(run.parent / "comparison")], description=None
        ),
        "sync": lambda: send(run),
        "load": lambda: (metaevo.load if name == "evolve" else metaevo.load_training)(run),
        "resume": lambda: script([*where, "--resume"]),
    }
    if name == "evolve":
        found["evaluate"] = lambda: transfer.main(
            [*where, "--task.env_params.size", "4", "--evaluation.seeds", "2"], description=None
        )
    if name in ("sweep", "pbt"):
        del found["load"]
    return found


def send(run: Path) -> int:
    """Run the script that sends a run to trackers."""
    return sync.main([str(run), "--wandb", "offline"], description=None)


def attempt(operation: Callable[[], Any], code: int | None = None) -> str:
    """Return what an operation ends with: ok, or the one line of its error (with a code).

    Raises AssertionError if there is more than a line, and whatever else escapes.
    """
    stderr, wanted, code = io.StringIO(), code, 0
    previous = signal.signal(signal.SIGALRM, _hang)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with (
            contextlib.redirect_stderr(stderr),
            contextlib.redirect_stdout(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            code = operation()
    except ReachedError:
        return "ok"
    except ConfigError as error:  # of a function of the library: always a single line
        return str(error)
    except SystemExit as end:
        code = end.code
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    if not isinstance(code, int) or code == 0:
        return "ok"
    lines = [line for line in stderr.getvalue().splitlines() if line.startswith("error: ")]
    assert code in ((2, os.EX_IOERR) if wanted is None else (wanted,)), (code, stderr.getvalue())
    assert len(lines) == 1, stderr.getvalue()
    assert "Traceback" not in stderr.getvalue(), stderr.getvalue()
    return lines[0]


def case(
    seed: int, made: dict[str, Path], place: Path, watch: Watch, *, kinds: bool
) -> tuple[str, dict[str, str]]:
    """Damage a copy of a run, and use it; what was done to it, and what became of it."""
    random = Random(seed)
    name = random.choice(list(made))
    shutil.rmtree(place, ignore_errors=True)
    run, outside = place / "run", place / "outside"
    outside.mkdir(parents=True)
    shutil.copytree(made[name], run)
    what = f"{name}: {damage(random, run, outside, kinds=kinds)}"
    if random.randrange(4):  # else it is finished, and little of it is read
        with contextlib.suppress(OSError):
            (run / "report.html").unlink()
    before, results = _contents(outside), {}
    watch.outside, watch.found = os.path.realpath(outside), []
    for operation, function in operations(name, run).items():
        try:
            results[operation] = attempt(function)
        except BaseException as error:
            watch.outside = None
            raise AssertionError(f"case {seed}, {what}, {operation}: {error!r}") from error
    watch.outside = None
    assert not watch.found, f"case {seed}, {what}: {watch.found}"
    assert _contents(outside) == before, f"case {seed}, {what}: what is outside has changed"
    return what, results
