import jax
import jax.numpy as jnp
import pytest

from metaevo.config import ConfigError
from metaevo.parts import Formula, Program
from metaevo.studies.reading import read_settings
from purerl.types import Context
from tests.metaevo.evolving import study_of

LEARNER = """import jax.numpy as jnp

from examples.reinforce import Config, Hyperparams, Reinforce, difference
from purerl.types import LearnerEntry, Slot


def clipped(meta_params, context, target, value):
    return jnp.clip(target - value, -1.0, 1.0)


SLOT = Slot(
    "advantage_rule",
    {"difference": difference, "clipped": clipped, "doubled": lambda *each: 2 * difference(*each)},
    inputs=("target", "value"),
    contenders=("difference", "clipped"),
    ranges={"clipped": {"learning_rate": [0.1, 0.5]}},
)
own = LearnerEntry(Config, Hyperparams, Reinforce, slots=(SLOT,), observations="flat")
"""
RULE = """from dataclasses import dataclass

import jax.numpy as jnp

from metaevo import Part


@dataclass(frozen=True)
class Asymmetric(Part):
    slot = "advantage_rule"
    unit: float = 1.0

    def init(self, key):
        return {"up": jnp.zeros(()), "down": jnp.zeros(())}

    def apply(self, meta_params, context, target, value):
        gap = target - value
        return gap * jnp.exp(self.unit * jnp.where(gap > 0, meta_params["up"], meta_params["down"]))
"""
SETTINGS = {
    "learner": "own_learner.py:own",
    "task": {"env": "CartPole-v1"},
    "train": {"total_timesteps": 64, "num_envs": 2, "num_steps": 16},
    "strategy": {"population_size": 8},
    "evolution": {"generations": 1, "validation_seeds": 2, "chunk_size": 2, "num_devices": 1},
    "evaluation": {
        "seeds": 2,
        "space": {"learning_rate": [0.1, 0.4]},
        "settings": 2,
        "finalists": 2,
        "selection_seeds": 1,
    },
}
FORMULA = {"slot": "advantage_rule", "expression": "c0 * (target - value)", "constants": {"c0": 1}}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "own_learner.py").write_text(LEARNER)
    (tmp_path / "my_rule.py").write_text(RULE)
    (tmp_path / "broken.py").write_text("raise ValueError('two\\nlines')\n")
    (tmp_path / "nothing.py").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_parts_of_all_kinds_fit(folder):
    formula = study_of({**SETTINGS, "evolve": "formula", "component": FORMULA}).problem.parts
    part = formula.by_slot["advantage_rule"]
    start = part.init(jax.random.key(0))
    assert part.apply(start, None, 3.0, 1.0) == 2.0
    program = {"slot": "advantage_rule", "start": ["target - value"]}
    raw = {**SETTINGS, "evolve": "program", "component": program}
    part = study_of(raw).problem.parts.by_slot["advantage_rule"]
    codes, constants = part.compiled("target - value")
    found = part.apply(
        {"codes": codes[None], "constants": constants[None]}, Context(None), 3.0, 1.0
    )
    assert found == 2.0
    outputs = part.programs().fingerprint({"codes": codes[None], "constants": constants[None]})
    assert jnp.ptp(outputs) > 0
    study = study_of({**SETTINGS, "evolve": "my_rule.py"})
    study.check()
    assert study.name == "evolve_my_rule"
    rivals = study.problem.contenders()
    ranges = {each.name: dict(each.ranges) for each in rivals}
    assert ranges == {"difference": {}, "clipped": {"learning_rate": [0.1, 0.5]}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"component": {**FORMULA, "expression": "c0 * error"}}, "'formula': .*unknown name 'err"),
        ({"component": {**FORMULA, "slot": "rule"}}, "no slot 'rule', only advantage_rule"),
        ({"component": {"slot": 3}}, r"component.slot = 3"),
        ({"evolve": "value_loss"}, "no slot 'value_loss', only advantage_rule; learners that"),
        ({"evolve": ["formula", "my_rule.py"], "component": {"formula": FORMULA}}, "both fill"),
        ({"advantage_rule": "squared"}, "advantage_rule"),
        ({"evolve": ["my_rule.py", "my_rule.py"]}, "two are called 'my_rule'"),
        ({"evolve": "broken.py"}, "'broken.py': broken.py cannot be imported: ValueError: two"),
        ({"evolve": "nothing.py"}, "'nothing.py': must define one part.* it has: none"),
    ],
)
def test_a_mistake_is_one_line(folder, changes, message):
    raw = {**SETTINGS, "evolve": "formula", "component": FORMULA, **changes}
    if "evolve" in changes and "component" not in changes:
        del raw["component"]
    with pytest.raises(ConfigError, match=message) as caught:
        study_of(raw)
    assert "\n" not in str(caught.value)


def test_a_formula_of_an_unknown_slot_waits_for_its_learner():
    for part in (Formula(**FORMULA), Program("advantage_rule", start=("target - value",))):
        with pytest.raises(ValueError, match="has no learner yet"):
            part.apply({}, None, 3.0, 1.0)
    named = Formula(**FORMULA, arguments=("target", "value"))
    assert named.apply(named.init(None), None, 3.0, 1.0) == 2.0


def test_its_functions_are_settings(folder):
    learner = {key: SETTINGS[key] for key in ("learner", "task", "train")}
    for name in ("difference", "doubled", "my_rule.py"):
        read_settings("train", learner, {"advantage_rule": name}).population()
    with pytest.raises(ConfigError, match="must be one of difference, clipped, doubled, the dir"):
        read_settings("train", learner, {"advantage_rule": "huber"}).population()
    evaluation = {**SETTINGS["evaluation"], "contenders": ["doubled"]}
    study = study_of({**SETTINGS, "evolve": "my_rule.py", "evaluation": evaluation})
    with pytest.raises(ConfigError, match=r"evaluation\.contenders"):
        study.check()
