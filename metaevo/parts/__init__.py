"""Parts of a learner: learned ones, each in a file of its own, and hand-written ones.

`parameters` computes features of a network's parameters for learned optimizers.

>>> metaevo.parts.Drift(hidden_size=8).init(jax.random.key(0))
"""

from metaevo import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
