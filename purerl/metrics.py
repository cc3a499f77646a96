"""Metrics that learners record in addition to returns, and which direction is better.

This module has no imports, so recorded numbers can be read without JAX.
"""

from typing import Literal

Direction = Literal["higher", "lower"]

BETTER: dict[str, Direction | None] = {
    "value_loss": "lower",
    "value_error": "lower",
    "policy_loss": None,
    "y_loss": None,
    "z_loss": None,
    "next_policy_loss": "lower",
    "q_loss": "lower",
    "entropy": None,
    "approximate_kl": None,
    "beyond_clip_epsilon": None,
    "q_value": None,
    "epsilon": None,
    "visited": None,
}
"""Directions by name; None if neither high nor low values are better."""
