"""A loss, an optimizer and a schedule at once: each is replaced in an ablation."""

import shutil
from pathlib import Path

import jax
import pytest

from metaevo.comparison import ablations
from metaevo.components import registry
from metaevo.config import from_dict, load_yaml
from metaevo.studies.learner import LearnerStudy
from metaevo.studies.settings import experiment_class
from purerl.types import Context

pytestmark = pytest.mark.long

OPTIMIZER = Path(__file__).parents[3] / "examples/scheduled_adam.py"
SETTINGS = """
learner: ppo
evolve: [drift, scheduled_adam.py, schedule]
component: {drift: {hidden_size: 2, temporal: true}, schedule: {coefficients: 2}}
train: {total_timesteps: 64, num_envs: 2, num_steps: 16, update_epochs: 1, num_minibatches: 1,
        hidden_sizes: [4]}
strategy: {population_size: 4, sigma: 0.5}
evolution: {generations: 1, validation_seeds: 0, chunk_size: 1, num_devices: 1}
evaluation: {seeds: 0, space: {learning_rate: {log_uniform: [1e-4, 1e-2]}}}
"""
REFERENCES = {"drift": "clipped_surrogate", "scheduled_adam": "adam", "schedule": "constant"}
SLOTS = {"drift": "policy_loss", "scheduled_adam": "make_optimizer", "schedule": "schedule"}


@pytest.fixture
def there(tmp_path, monkeypatch):
    shutil.copy(OPTIMIZER, tmp_path)
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "IMPORTED", {})
    return tmp_path


@pytest.fixture
def study(there):
    raw = load_yaml(there / "settings.yaml")
    return LearnerStudy(from_dict(experiment_class(raw, None), raw))


def test_each_part_is_taken_out_again(study):
    parts, meta_params = study.evolved.parts, study.evolved.init(jax.random.key(0))
    laboratory = ablations.Laboratory(study.settings, study.parts, meta_params)
    found = laboratory.ablations(single_task=True)
    assert [each.key for _, each in found] == ["without"] * 3
    assert {part.name: row.function for part, each in found for row in each.rows} == REFERENCES
    context = Context(study.settings.hyperparams, 0.5, 2)
    both = {"found": meta_params, "row": None}
    for part, each in found:
        (row,) = each.rows
        (reference,) = part.slot.functions([row.function])
        functions = ablations._with(part, reference, study.parts)
        assert set(functions) == set(SLOTS.values())
        drift = {
            True: parts["drift"].component.apply(meta_params["drift"], context, 0.3, 1.0),
            False: -1.2,  # PPO's clip
        }[part.name != "drift"]
        assert float(functions["policy_loss"](both, context, 0.3, 1.0)) == pytest.approx(drift)
        moved = jax.tree.map(lambda leaf: leaf + 1.0, meta_params)
        scheduled = functions["schedule"]({"found": moved, "row": None}, context)
        changes = scheduled.learning_rate != context.hyperparams.learning_rate
        assert bool(changes) == (part.name != "schedule")
