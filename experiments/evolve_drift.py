"""Evolve the drift of PPO's policy loss, and compare it with tuned PPO and DPO.

python experiments/evolve_drift.py                                       # the quick preset
python experiments/evolve_drift.py --component.start clip --strategy.sigma 0.05
python experiments/evolve_drift.py --task.env Breakout-MinAtar --train.total_timesteps 1000000
python experiments/evolve_drift.py --resume --run-dir runs/evolve_drift/NAME
"""

import sys

from metaevo.runs import signals

signals.leave_at_once()  # until there is something to save

from metaevo.parallel import devices, hosts

devices.setup()  # before anything starts JAX
hosts.join(sys.argv[1:])

from metaevo.evolution.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], component="drift", description=__doc__))
