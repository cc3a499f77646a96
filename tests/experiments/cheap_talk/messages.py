"""A network of messages, written from its definition: the reference of `channels`."""

import numpy as np


def message(weights, obs, xp=np):
    """The message before it is scaled, by NumPy in double precision or by `jax.numpy`."""
    layers, x = weights["params"], obs
    for place in range(len(layers["Torso_0"])):
        hidden = layers["Torso_0"][f"Dense_{place}"]
        x = xp.maximum(x @ xp.asarray(hidden["kernel"], float) + xp.asarray(hidden["bias"]), 0)
    out = layers["out"]
    return xp.tanh(x @ xp.asarray(out["kernel"], float) + xp.asarray(out["bias"]))
