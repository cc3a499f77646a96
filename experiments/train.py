"""Train any learner in any environment: many agents at once, spread over all devices.

python experiments/train.py --learner ppo --task.env CartPole-v1 --seeds 32
python experiments/train.py --config configs/train/ppo_pendulum.yaml --evaluation.gymnasium 2
python experiments/train.py --value_loss runs/evolve_value_loss/NAME     # with a discovered loss
python experiments/train.py --resume --run-dir runs/train/NAME
"""

import sys

from metaevo.runs import signals

signals.leave_at_once()  # until there is something to save

from metaevo.parallel import devices

devices.setup()  # before anything starts JAX

from metaevo.training.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], description=__doc__))
