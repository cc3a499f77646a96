"""Send what trackers have missed of runs, from their directories alone.

python experiments/sync.py runs/train/NAME                       # to where its settings mirror it
python experiments/sync.py 'runs/train/*' --wandb                # to Weights & Biases, online
python experiments/sync.py runs/train/NAME --wandb offline --mlflow sqlite:///mlruns.db

What has arrived already is not sent again, so the command can be repeated.
"""

import sys

from metaevo.runs.tracking.sync import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], description=__doc__))
