"""REINFORCE, as the page on learners of one's own has it: it learns, and mistakes are named."""

import io
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

import metaevo
from metaevo.commands import evolve, judge, sweep, train
from tests.metaevo.evolving import forget_code
from tests.processes import ROOT

PAGE = (ROOT / "docs" / "how-to" / "learner.md").read_text(encoding="utf-8")
TEXT = re.search(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[1]
NAME = "my_reinforce.py:LEARNER"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "my_reinforce.py").write_text(TEXT, encoding="utf-8")
    settings = (ROOT / "examples" / "reinforce.yaml").read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(settings, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    forget_code(monkeypatch)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (train, ""),
        (evolve, "--config mine.yaml"),
        (sweep, "--space {hyperparams.learning_rate:{log_uniform:[0.001,0.01]}}"),
        (judge, "--slot advantage_rule --tasks mine.yaml"),
    ],
)
def test_every_command_takes_it(folder, command, line):
    assert command.main(["--learner", NAME, *line.split(), "--dry-run"]) in (0, None)


@pytest.mark.long
def test_a_proposal_for_its_slot_is_scored(folder, monkeypatch, capsys):
    line = io.BytesIO(b'{"expression": "target - value"}\n')
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=line))
    sizes = "--train.total_timesteps 2048 --evaluation.seeds 0 --evolution.seeds_per_candidate 2"
    command = f"--slot advantage_rule --learner {NAME} --tasks mine.yaml {sizes}"
    assert judge.main(command.split()) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["valid"]
    assert np.isfinite(answer["score"])


def test_it_learns(folder):
    sizes = {"total_timesteps": 64 * 256, "num_envs": 8, "num_steps": 32}
    fitness = {"mean_return": 0.0, "evaluation_return": 1.0, "evaluations": 2}
    result = metaevo.train(
        NAME, train=sizes, seeds=2, fitness=fitness, hyperparams={"learning_rate": 1e-2}
    )
    first, last = (np.nanmean(result.returns[:, each]) for each in (slice(8), slice(-8, None)))
    assert last > 2 * first
    assert (result.scores > 100).all()
    assert np.isfinite(result.evaluations).sum() == 4


def test_returns_by_hand(folder):
    returns = metaevo.load_code("learner", "my_reinforce.py").returns
    rollout = type("Rollout", (), {})()
    rollout.reward = np.float32([[1], [2], [4], [8]])
    rollout.terminated = np.array([[False], [True], [False], [False]])
    rollout.truncated = np.array([[False], [True], [True], [False]])
    next_value = np.float32([[100], [100], [16], [32]])
    expected = [1 + 0.5 * 2, 2, 4 + 0.5 * 16, 8 + 0.5 * 32]
    np.testing.assert_allclose(returns(rollout, next_value, 0.5)[:, 0], expected)


MISTAKES = [
    # a text, what takes its place, and the complaint
    ("def policy(", "def parameters(", "Reinforce has no method policy"),
    ("    train = training.train\n", "", "Reinforce has no method train"),
    ("self.network.init(network", "self.net.init(network", "Reinforce.init fails: Attribute.*net"),
    (" = 64\n", " = 64\n    batch_size = None\n", "Config.batch_size = None: must be an integer"),
    ("@dataclass(frozen=True)\nclass Config(training.BaseConfig)", "class Config",
     r"config = .*: must be a frozen dataclass"),
    ("def random_play", "def play", r"hyperparams: .* random_play"),
    ('"advantage_rule", {"', '"advantage", {"', "Reinforce takes no 'advantage', the name of a"),
    ("slots=(SLOT,)", "slots=(SLOT, SLOT)", "slots: two are called 'advantage_rule'"),
    ("LEARNER = ", "LEARNER, _ = SLOT, ", "must be a purerl.types.LearnerEntry, not Slot"),
    ("hyperparams.gamma)", "hyperparams.gama)", "Reinforce.update fails: AttributeError: .*gama"),
    ("state, sums, metrics", "state, sums", "Reinforce.update: must return a state, Ep"),
    ("state, sums, metrics", "state, sums, [metrics]", "Reinforce.update: metrics are list: must"),
    ("state, sums, metrics", "state, sums, {'targets': target}",
     r"Reinforce.update: metrics\['targets'\] is float32\[128, 4\]: must be float32\[\]"),
    ("state, sums, metrics", "state, jax.tree.map(lambda leaf: leaf * jnp.ones(4), sums), metrics",
     r"Reinforce.update: sums.episodes is float32\[4\]: must be float32\[\]"),
    ("state.update + 1,", "state.update + 1.0,",
     r"Reinforce.update: state.update is float32\[\]: must be int32\[\]"),
    ("envs, key, state.update + 1, state.num_updates", "envs, key, None",
     r"Reinforce.update: state is State\(.*: must be State\("),
    ("(policy, obs)[0], memory", "(policy, obs)[0]", "Reinforce.action_distribution fails"),
    ("(policy, obs)[0], memory", "(policy, obs)[0], obs",
     r"Reinforce.action_distribution: memory is '.*': must be None"),
    ("apply(policy, obs)[0], memory", "apply(policy, obs[None])[0], memory",
     r"Reinforce.action_distribution: action is int32\[1\]: must be int32\[\]"),
    ("        return state.params\n", "        return state.weights\n", "Reinforce.policy fails"),
    ('    "advantage_rule", {', '    "value_loss", {', "Reinforce takes no 'value_loss'"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "complaint"), MISTAKES)
def test_a_mistake_is_named_before_compilation(folder, old, new, complaint):
    assert old in TEXT
    (folder / "my_reinforce.py").write_text(TEXT.replace(old, new), encoding="utf-8")
    raw = {"learner": NAME, "task": {"env": "CartPole-v1"}}
    with pytest.raises(metaevo.ConfigError, match=complaint) as caught:
        metaevo.read_settings("train", raw).population()
    assert "\n" not in str(caught.value)
