"""A loss evolved for Q-learning, and judged on a task that its evolution has not seen."""

import json
import shutil

import pytest

from metaevo.commands import evaluate as transfer
from metaevo.commands.evolve import main
from metaevo.components.discovery import load
from metaevo.components.value_losses import SIDES
from metaevo.config import dump_yaml, from_dict, load_yaml
from metaevo.runs.run_directory import RunDirectory
from metaevo.studies.conclusion import write_report
from metaevo.studies.learner import LearnerStudy
from metaevo.studies.settings import experiment_class

pytestmark = pytest.mark.long

TINY = """
learner: q_learning
task: {env: GridWorld, env_params: {size: 3, slip_probability: 0.1}}
train: {total_timesteps: 60, num_steps: 20}
component: {form: additive, hidden_sizes: [2], start: squared}
fitness: {mean_return: 0, reward_per_step: 10}
strategy: {population_size: 8, sigma: 0.1}
evolution: {generations: 2, validation_seeds: 4, num_devices: 1}
evaluation: {seeds: 8, sampler: grid, space: {learning_rate: [0.2, 0.5]},
             tuning_seeds: 2, ablation_seeds: 4}
"""


@pytest.fixture(scope="module")
def evolved(tmp_path_factory):
    """A finished run."""
    path = tmp_path_factory.mktemp("evaluate")
    (path / "tiny.yaml").write_text(TINY)
    argv = ["--config", str(path / "tiny.yaml"), "--run-dir", str(path / "run")]
    assert main(argv, component="value_loss", description="") == 0
    return path / "run"


def test_a_loss_for_q_learning_is_compared_and_taken_apart(evolved):
    result = json.loads((evolved / "evaluation.json").read_text())
    functions = {row["function"] for row in result["variants"]}
    assert functions == {
        "learned",
        "squared",
        "huber",
        "sloped_squared",
    }  # clipping makes no difference
    assert [row["loss"] for row in result["sides"]] == list(SIDES)
    assert {row["clipping"] for row in result["ablation"]} == {False}
    page = (evolved / "report.html").read_text()
    assert "two sides of the error" in page
    assert "learning_rate" in page


def in_order(page, *texts):
    """Whether the texts stand on the page in this order."""
    places = [page.find(text) for text in texts]
    assert -1 not in places, texts[places.index(-1)]
    return places == sorted(places)


def test_the_report_begins_with_the_verdict(evolved):
    page = (evolved / "report.html").read_text().split("<body>")[1]
    result = json.loads((evolved / "evaluation.json").read_text())
    verdict = f"<strong>{result['conclusion'].upper()}</strong>"
    title = "<h1>Evolving a value loss for Q-learning on GridWorld</h1>"
    loaded = f"<code><span>metaevo.load(&quot;{evolved}&quot;)"
    assert in_order(page, title, 'class="banner', verdict, "<dt>started", "<dt>frames", loaded)
    first, rest = page.split('<div class="beside">')
    assert "of evolution, " in first
    assert "<table" not in first
    # Two figures side by side, what was found below them, and only then tables.
    parts = ["<img", "The discovered loss", "Interquartile mean on held-out", "</figure>"]
    parts += ["<p>The loss", "Held-out comparison", "Tuned settings", "<h2>Fitness"]
    parts += ["<summary>Ablations", "two sides of the error", "<summary>Settings"]
    assert in_order(rest.replace("</figure>", "", 1), *parts)
    settings = rest.split("Tuned settings")[1].split("</table>")[0]
    learned = next(row for row in result["variants"] if row["name"] == "learned (tuned)")
    assert ("learning_rate" in settings) == any(row["settings"] for row in result["variants"])
    for key, value in learned["settings"].items():
        assert f"{key}={value:.4g}" in settings
    assert "Quick look" not in page


def test_learning_curves_show_what_the_run_is_judged_by(evolved):
    result = json.loads((evolved / "evaluation.json").read_text())
    assert result["curves"] == "reward per step"
    page = (evolved / "report.html").read_text()
    assert "reward per step, mean and 95% interval. The run is judged by 10 x reward" in page


def rewritten(evolved, path, capsys, result, **changed):
    """The page and the terminal of a report that is written again, from another result."""
    shutil.copytree(evolved, path)
    (path / "report.html").unlink()
    (path / "evaluation.json").write_text(json.dumps(result))
    saved = load_yaml(path / "config.yaml")
    saved["config"]["run"] |= changed
    (path / "config.yaml").write_text(dump_yaml(saved))
    run = RunDirectory(path)
    settings = from_dict(experiment_class(saved["config"], None), saved["config"])
    capsys.readouterr()
    write_report(LearnerStudy(settings), run, load(path)[1], path)
    return run.report_path.read_text().split("<body>")[1], capsys.readouterr().out


def test_an_evaluation_of_an_earlier_version_still_makes_a_report(evolved, tmp_path, capsys):
    new = json.loads((evolved / "evaluation.json").read_text())
    late = {"against_best", "observed", "curves", "tuning_rounds", "frames_per_agent"}
    old = {key: value for key, value in new.items() if key not in late}
    for pair in old["pairs"]:
        if pair["other"] == old["best_hand_written"]:
            pair |= {"conclusion": "undecided", "difference": 0.5, "difference_interval": [-3, 4]}
    assert '"fitness_low"' in (evolved / "metrics.jsonl").read_text()
    page, printed = rewritten(evolved, tmp_path / "old", capsys, old)
    assert in_order(page, "UNDECIDED", "+0.5 [-3.0, +4.0]", "(95% interval)")
    assert "return of finished episodes" in page  # what the curves of that version show
    last = printed.strip().split("\n\n")[-1]
    assert last.startswith("Undecided: learned")  # the verdict comes last
    assert in_order(printed, "Ablation", "Held-out comparison", "Tuned settings", "Undecided")


def test_a_quick_look_says_so_first(evolved, tmp_path, capsys):
    result = json.loads((evolved / "evaluation.json").read_text())
    page, printed = rewritten(evolved, tmp_path / "quick", capsys, result, quick=True)
    warning = "Quick look: too few seeds to conclude"
    assert warning in page
    verdict = f">{result['conclusion'].upper()}<"
    normal, _ = rewritten(evolved, tmp_path / "normal", capsys, result)
    assert verdict in normal
    assert verdict not in page
    assert printed.strip().split("\n\n")[-1].startswith(f"{warning}. ")


def test_on_another_grid(evolved, capsys):
    argv = ["--run-dir", evolved, "--name", "wide", "--task.env_params.size", "[2,4]"]
    argv += ["--evaluation.ablation_seeds", "0", "--hyperparams.gamma", "0.9"]
    assert transfer.main([str(each) for each in argv], description="") == 0
    there = evolved / "transfer" / "wide"
    result = json.loads((there / "evaluation.json").read_text())
    assert len(result["variants"]) == 6
    settings = load_yaml(there / "config.yaml")["config"]
    assert settings["task"]["env_params"] == {"size": [2, 4], "slip_probability": 0.1}
    assert settings["hyperparams"]["gamma"] == 0.9
    assert "on another task" in (there / "report.html").read_text()
    assert "Held-out comparison" in capsys.readouterr().out


@pytest.mark.parametrize("case", ["a long name", "a file in the way", "a link"])
def test_a_place_that_cannot_be_written_is_one_line(evolved, capsys, case):
    name, there = "x" * 300 if case == "a long name" else "name", evolved / "transfer"
    kept = evolved / "kept"
    if there.exists():
        there.rename(kept)
    if case == "a file in the way":
        there.touch()
    elif case == "a link":
        there.symlink_to("figures")
    argv = ["--run-dir", str(evolved), "--name", name, "--task.env_params.size", "4"]
    try:
        with pytest.raises(SystemExit) as exit_info:
            transfer.main(argv, description="")
    finally:
        if there.is_symlink() or there.is_file():
            there.unlink()
        elif there.exists():
            there.rmdir()
        if kept.exists():
            kept.rename(there)
    assert exit_info.value.code == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ")
    assert "transfer" in error


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("--task.env GridWorldz", ["GridWorldz", "GridWorld"]),
        ("--task.env FrozenLake-misc --task.env_params.size 3", ["FrozenLake-misc", "size"]),
        ("--task.env CartPole-v1", ["CartPole-v1", "no state index"]),
        ("--task.env [GridWorld,Doors]", ["task.env", "single"]),
        ("--strategy.sigma 0.5", ["strategy.sigma", "judged as it is"]),
        ("--task.env_params.size 5 --evaluation.seeds 0", ["evaluation.seeds = 0"]),
        ("--evaluation.seeds 9", ["task of the run itself", "--task.env"]),
        ("--name wide --task.env_params.size 4", ["wide", "another task", "--name"]),
        ("--config other.yaml", ["--config"]),
    ],
)
def test_what_cannot_be_judged(evolved, capsys, line, texts):
    (evolved / ".." / "other.yaml").write_text("learner: q_learning\nevolve: value_loss\n")
    line = line.replace("other.yaml", str(evolved / ".." / "other.yaml"))
    with pytest.raises(SystemExit) as exit_info:
        transfer.main(["--run-dir", str(evolved), *line.split()], description="")
    complaint = capsys.readouterr().err
    assert exit_info.value.code == 2
    assert complaint.startswith("error: ")
    assert complaint.count("\n") == 1
    for text in texts:
        assert text in complaint


def test_a_run_that_evolved_nothing(tmp_path, capsys):
    (tmp_path / "config.yaml").write_text("{config: {task: {}}, resolved: {}, environment: {}}")
    with pytest.raises(SystemExit):
        transfer.main(["--run-dir", str(tmp_path)], description="")
    assert "no discovered component" in capsys.readouterr().err


def test_without_a_run(capsys):
    with pytest.raises(SystemExit) as exit_info:
        transfer.main([], description="")
    assert exit_info.value.code == 2
    assert "--run-dir" in capsys.readouterr().err
