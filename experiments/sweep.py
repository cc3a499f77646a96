"""Sweep over the settings of a learner, or of an evolution: trials x seeds in one compiled call.

python experiments/sweep.py --config configs/sweep/ppo_cartpole.yaml
python experiments/sweep.py --config configs/sweep/ppo_cartpole.yaml --dry-run
python experiments/sweep.py --config FILE --space.hyperparams.gamma "{uniform: [0.9, 0.999]}"
python experiments/sweep.py --resume --run-dir runs/sweep/NAME
python experiments/sweep.py --worker --run-dir runs/sweep/NAME      # help to train another's trials
"""

import sys

from metaevo.runs import signals

signals.leave_at_once()  # until there is something to save

from metaevo.parallel import devices

devices.setup()  # before anything starts JAX

from metaevo.sweep.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], description=__doc__))
