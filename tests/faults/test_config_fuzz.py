"""Whatever stands in a config or on a command line: settings that can be run, or one line."""

import os
import shlex

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from metaevo.config import dump_yaml, flatten, from_dict, load_yaml, to_dict
from tests.faults.fuzzing import SCRIPTS, attempts

EXAMPLES = int(os.environ.get("METAEVO_FUZZ_EXAMPLES", "5000"))
"""Of the long fuzzing, per script."""

BUGS = {
    # what the generated attempts have found: a command line, and the texts of its complaint
    "a learner that is no text": ("--learner [ppo]", ["learner = ['ppo'] is not known"]),
    "a component that is no text": (
        "--evolve {}",
        ["evolve = {}: must be the name of a component"],
    ),
    "a loss network of 16 GiB": (
        "--component.hidden_sizes [24,2147483647]",
        ["strategy: a population", "GiB of memory at least; there are"],
    ),
    "a grid of 58 TiB": (
        "--learner q_learning --task.env_params.size 8000000",
        ["GridWorld", "size = 8000000", "at most 1024"],
    ),
    "half a grid": (
        "--learner q_learning --task.env_params.size [2,8000000]",
        ["size = (2, 8000000)", "at most 1024"],
    ),
    "a step beyond float32": ("--strategy.learning_rate 1e39", ["strategy.learning_rate = 1e+39"]),
    "a population beyond int32": (
        "--strategy.population_size 9007199254740992",
        ["strategy.population_size = 9007199254740992: must be at most 2147483647 in size"],
    ),
    "agents beyond int32": (
        "--strategy.population_size 1000000000 --evolution.seeds_per_candidate 4",
        ["4000000032 agents in a generation", "2147483647"],
    ),
    "a population beyond memory": (
        "--strategy.population_size 2000000000",
        ["strategy: a population", "GiB"],
    ),
    "a batch beyond memory": (
        "--train.total_timesteps 2000000000 --train.num_envs 20000000 --train.num_steps 100",
        [
            "train: a single agent in CartPole-v1 would take",
            "GiB of memory at least; there are 8.0",
        ],
    ),
    "a chunk beyond memory": (
        "--evolution.chunk_size 1000000 --strategy.population_size 1000000",
        ["evolution: 1000032 agents", "GiB"],
    ),
    "a matrix beyond memory": (
        "--strategy.algorithm CMA_ES --component.hidden_sizes [200,200]",
        ["strategy: CMA_ES would take", "GiB"],
    ),
    "a scale whose square is beyond float32": ("--component.error_scale 1e38", ["error_scale"]),
    "an endless wait": ("--run.track_wait .inf", ["run.track_wait = inf: must be at most 86400"]),
    "a name of 60 parts": ("--" + ".".join("a" * 60) + " 1", ["more than 50 parts"]),
    "a number beyond printing": ("--run.seed 0x" + "f" * 5000, ["run.seed", "at most 100 digits"]),
    "half a character": (r"""--task.env '"\ud800"'""", ["UTF-8"]),
    "a tag": ("--task.env '!!python/object/apply:os.system [true]'", ["tags are not supported"]),
    "a path for a component": ("--evolve ../../etc/passwd", ["'../../etc/passwd' is not known"]),
    "a path for an environment": ("--task.env ../../x", ["unknown environment '../../x'"]),
    "a path for an algorithm": ("--strategy.algorithm ../x", ["'../x' is not known"]),
}


@pytest.mark.parametrize("case", BUGS)
def test_found_once_refused_ever_after(case, tmp_path):
    line, texts = BUGS[case]
    learner = [] if "--learner" in line else ["--learner", "ppo"]
    argv = [*learner, *shlex.split(line), "--run-dir", str(tmp_path / "run")]
    complaint = SCRIPTS["evolve_value_loss"].attempt(argv)
    for text in texts:
        assert text in (complaint or "")


@pytest.mark.parametrize(
    ("name", "line", "text"),
    [
        ("train", "--seeds 2147483647", "seeds: 2147483647 agents in CartPole-v1 would take"),
        ("train", "--learner dqn --train.buffer_size 2000000000", "a single agent in CartPole-v1"),
        ("sweep", "--sweep.seeds 4000000000", "sweep.seeds = 4000000000: must be"),
        ("sweep", "--sweep.trials 1000000000", "sweep.trials = 1000000000: must be at most"),
        (
            "sweep",
            "--config configs/sweep/evolution_q_learning.yaml --component.hidden_sizes [999999999]",
            "strategy: a population would take",
        ),
        ("train", f"--value_loss {'x' * 300}", "must be one of squared"),
        ("train", f"--make_optimizer {'x' * 300}", "must be one of flat_adam"),
        ("train", f"--resume --run-dir {'x' * 300}", "holds no run"),
        ("train", f"--config {'x' * 300}", "File name too long"),
        ("sweep", "--space.hyperparams.gamma '{uniform: [0, 1e39]}'", "1e+39"),
    ],
)
def test_too_much_for_the_other_scripts(name, line, text, tmp_path):
    argv = ["--run-dir", str(tmp_path / "run"), *shlex.split(line)]
    assert text in (SCRIPTS[name].attempt(argv) or "")


def fuzz(name, examples, folder, *, derandomize=True):
    script, accepted = SCRIPTS[name], []

    @settings(
        max_examples=examples,
        derandomize=derandomize,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(attempts(script))
    def run(attempt):
        config, overrides = attempt
        path = folder / "config.yaml"
        path.write_text(dump_yaml(config), encoding="utf-8")
        argv = ["--config", str(path), "--run-dir", str(folder / "run"), *overrides]
        accepted.append(script.attempt(argv) is None)

    run()
    assert any(accepted), "if nothing is accepted, this shows nothing"
    assert not (folder / "run").exists()
    print(f"{name}: {len(accepted)} command lines, {sum(accepted)} of them accepted")


@pytest.mark.long
@pytest.mark.parametrize("name", SCRIPTS)
def test_any_settings_are_accepted_or_refused_in_one_line(name, tmp_path):
    fuzz(name, 5, tmp_path)


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SCRIPTS)
def test_many_settings(name, tmp_path):
    fuzz(name, EXAMPLES, tmp_path, derandomize=False)


EDGES = ["2147483647", "1000000", "0", "-1", "7", ".inf", "1e39", "99999999999999999999", "{}", "~"]
EDGES += ["3.4e38", "1.2e-38", "[]", "''", "[1000000000]", "../../x"]


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SCRIPTS)
def test_every_setting_at_every_edge(name, tmp_path):
    script, count = SCRIPTS[name], 0
    for preset in script.presets[:2]:
        raw = load_yaml(preset)
        for key in flatten(to_dict(from_dict(script.settings_class(raw), raw))):
            for edge in EDGES:
                argv = ["--config", str(preset), "--run-dir", str(tmp_path / "run")]
                script.attempt([*argv, f"--{key}", edge])
                count += 1
    print(f"{name}: {count} command lines")
