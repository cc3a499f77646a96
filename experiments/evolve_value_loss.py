"""Evolve a value loss: `metaevo evolve --evolve value_loss`.

Without `--config` it is that of tabular Q-learning, the quickest:
configs/evolve_value_loss/q_learning.yaml.
"""

import sys

from metaevo.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["evolve", *sys.argv[1:]], component="value_loss"))
