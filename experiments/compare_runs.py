"""Compare runs, finished or not: which is better, by how much, and how sure that is.

python experiments/compare_runs.py runs/train/a runs/train/b
python experiments/compare_runs.py 'runs/train/ppo_*' --group-by hyperparams.learning_rate
python experiments/compare_runs.py runs/train wandb:me/project mlflow:sqlite:///mlflow.db#name
python experiments/compare_runs.py runs/train --watch
"""

import sys

from metaevo.runs import signals

signals.leave_at_once()  # until there is something to save

from metaevo.parallel import devices

devices.setup()  # before anything starts JAX

from metaevo.compare_runs.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], description=__doc__))
