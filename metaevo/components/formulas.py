"""Hand-written losses, optimizers, schedules as formulas: their lengths, and where one may begin.

A learner's hyperparameters are constants of these formulas, with their defaults.
"""

from metaevo.components.formula import Config

HAND_WRITTEN: dict[str, dict[str, Config]] = {
    "value_loss": {
        "squared": Config(expression="error", constants={}, gives="slope"),
        "huber": Config(
            expression="clip(error, -delta, delta)", constants={"delta": 1.0}, gives="slope"
        ),
        "sloped_squared": Config(
            expression="error + slope", constants={"slope": 0.1}, gives="slope"
        ),
        "clipped_squared": Config(
            expression="maximum(error**2, (error - change + clip(change, -epsilon, epsilon))**2)/2",
            constants={"epsilon": 0.2},
        ),
    },
    "policy_loss": {
        "clipped_surrogate": Config(
            slot="policy_loss",
            expression="-minimum(ratio * advantage, clip(ratio, low, high) * advantage)",
            constants={"low": 0.8, "high": 1.2},
        ),
        "dpo": Config(
            slot="policy_loss",
            expression="where(advantage > 0, "
            "maximum((ratio - 1) * advantage - a * tanh((ratio - 1) * advantage / a), 0), "
            "maximum(log_ratio * advantage - b * tanh(log_ratio * advantage / b), 0)) "
            "- ratio * advantage",
            constants={"a": 2.0, "b": 0.6},
        ),
    },
    "make_optimizer": {
        "adam": Config(slot="make_optimizer", expression="mean_9", constants={}),
    },
    "schedule": {
        "constant": Config(slot="schedule", expression="1", constants={}),
        "linear": Config(
            slot="schedule",
            expression="1 - progress",
            constants={},
            hyperparam="clip_epsilon",
            also={"entropy_coef": "1 - progress"},
        ),
    },
}
"""By slot and name."""
