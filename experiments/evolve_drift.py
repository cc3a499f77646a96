"""Evolve the drift of PPO's policy loss: `metaevo evolve --evolve drift`."""

import sys

from metaevo.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["evolve", *sys.argv[1:]], component="drift"))
