"""Evolve a value loss for a learner, and compare it with tuned hand-written ones.

python experiments/evolve_value_loss.py                                  # the quick preset
python experiments/evolve_value_loss.py --config configs/evolve_value_loss/standard.yaml
python experiments/evolve_value_loss.py --task.env Acrobot-v1 --strategy.sigma 0.2
python experiments/evolve_value_loss.py --resume --run-dir runs/evolve_value_loss/NAME
"""

import sys

from metaevo.runs import signals

signals.leave_at_once()  # until there is something to save

from metaevo.parallel import devices, hosts

devices.setup()  # before anything starts JAX
hosts.join(sys.argv[1:])

from metaevo.evolution.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], component="value_loss", description=__doc__))
