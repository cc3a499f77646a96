"""Evolve any component of a learner: the one that `evolve:` names in the settings.

python experiments/evolve.py --config my_component.yaml
python experiments/evolve.py --evolve value_loss --strategy.algorithm SNES
python experiments/evolve.py --evolve drift --config configs/evolve_drift/quick.yaml
"""

import sys

from metaevo.runs import signals

signals.leave_at_once()  # until there is something to save

from metaevo.parallel import devices, hosts

devices.setup()  # before anything starts JAX
hosts.join(sys.argv[1:])

from metaevo.evolution.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], component=None, description=__doc__))
