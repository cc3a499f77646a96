"""The optimizer in docs/components.md is a component: it starts as Adam, and its numbers matter."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

from metaevo.components import registry
from metaevo.config import from_dict
from metaevo.studies.settings import experiment_class, make_parts
from purerl.parts import optimizers
from purerl.types import Context

PAGE = Path(__file__).parent.parent.parent / "docs/components.md"


def component_of_the_page():
    code = PAGE.read_text().split("```python\n")[1].split("```")[0]
    return registry.execute(code.encode(), Path("scheduled_adam.py"))


def test_the_optimizer_of_the_page(monkeypatch):
    monkeypatch.setitem(registry.IMPORTED, "scheduled_adam", component_of_the_page())
    settings = from_dict(experiment_class({}, "scheduled_adam"), {})
    component = make_parts(settings).evolved.parts["scheduled_adam"].component
    context = Context(settings.hyperparams)
    params = {"kernel": jnp.ones((2, 3)), "bias": jnp.zeros(3)}
    gradient = jax.tree.map(lambda leaf: leaf + 0.5, params)

    def step(make_optimizer, meta_params, progress):
        optimizer = optax.with_extra_args_support(make_optimizer(meta_params, context))
        state = optimizer.init(params)
        return optimizer.update(
            gradient, state, params, **context.extra_args() | {"progress": progress}
        )[0]

    adam = step(optimizers.adam, None, 0.0)
    start = component.init(jax.random.key(0))
    same = step(component.apply, start, 0.3)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), same, adam)
    faster = {**start, "end": jnp.log(3.0)}
    tripled = jax.tree.map(lambda leaf: 3.0 * leaf, adam)
    found = step(component.apply, faster, 1.0)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), found, tripled)
