"""Evolve a value loss, by default for Q-learning: `metaevo evolve --evolve value_loss`."""

import sys

from metaevo.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["evolve", "--evolve", "value_loss", *sys.argv[1:]]))
