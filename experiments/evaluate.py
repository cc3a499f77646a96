"""Judge a discovered component on a task that its evolution has not seen.

python experiments/evaluate.py --run-dir runs/evolve_value_loss/my_run --task.env FourRooms-misc
python experiments/evaluate.py --run-dir RUN --name 12x12 --task.env_params.size 12
"""

import sys

from metaevo.runs import signals

signals.leave_at_once()  # until there is something to save

from metaevo.parallel import devices

devices.setup()  # before anything starts JAX

from metaevo.transfer.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], description=__doc__))
