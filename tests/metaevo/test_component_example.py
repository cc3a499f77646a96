"""The optimizer in docs/components.md is a component: it starts as Adam, and its numbers matter."""

from pathlib import Path
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import optax

from metaevo.components import COMPONENTS
from metaevo.config import from_dict
from metaevo.studies.settings import experiment_class, make_parts
from purerl.parts import losses

PAGE = Path(__file__).parent.parent.parent / "docs/components.md"


def component_of_the_page():
    code = PAGE.read_text().split("```python\n")[1].split("```")[0]
    module = ModuleType("scheduled_adam")
    exec(compile(code, PAGE, "exec"), module.__dict__)
    return module


def test_the_optimizer_of_the_page(monkeypatch):
    monkeypatch.setitem(COMPONENTS, "scheduled_adam", component_of_the_page())
    settings = from_dict(experiment_class({}, "scheduled_adam"), {})
    parts, hyperparams = make_parts(settings), settings.hyperparams
    params = {"kernel": jnp.ones((2, 3)), "bias": jnp.zeros(3)}
    gradient = jax.tree.map(lambda leaf: leaf + 0.5, params)

    def step(make_optimizer, meta_params, progress):
        optimizer = optax.with_extra_args_support(make_optimizer(meta_params, hyperparams))
        state = optimizer.init(params)
        return optimizer.update(gradient, state, params, progress=progress)[0]

    adam = step(losses.clipped_adam, None, 0.0)
    start = parts.component.init(jax.random.key(0))
    jax.tree.map(np.testing.assert_allclose, step(parts.component.apply, start, 0.3), adam)
    faster = {**start, "end": jnp.log(3.0)}
    tripled = jax.tree.map(lambda leaf: 3.0 * leaf, adam)
    found = step(parts.component.apply, faster, 1.0)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), found, tripled)
