"""Evolve a value loss, by default for Q-learning: `metaevo evolve --evolve value_loss`."""

import sys

from metaevo.__main__ import main

OTHERS = {"--config", "--problem", "--resume"}
"""Flags that say what evolves."""

if __name__ == "__main__":
    is_said = any(word.partition("=")[0] in OTHERS for word in sys.argv[1:])
    part = [] if is_said else ["--evolve", "value_loss"]
    sys.exit(main(["evolve", *part, *sys.argv[1:]]))
