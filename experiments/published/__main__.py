"""Save OPEN's published weights (Apache-2.0) as a part, which every command takes.

python -m experiments.published breakout_OPEN.npy open-breakout
metaevo train --make_optimizer open-breakout --code experiments/published/open.py
"""

import argparse
import sys
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

import metaevo
from experiments.published.open import Open
from experiments.published.weights import read

WHERE = "a file of github.com/AlexGoldie/rl-learned-optimization, rl_optimizer/pretrained/"
PARTS = {1211: Open(), 3571: Open(memory_size=16, hidden_size=32)}
"""By the count of their weights."""
MINATAR = "Asterix-MinAtar", "Breakout-MinAtar", "Freeway-MinAtar", "SpaceInvaders-MinAtar"
KNOWN = {
    "e1901cafe323d1c5619b84e5178b3075c95a7cde920777e2c15e58c812c3e725": ("brax/ant",),
    "55d96c80dca70e4a308352798daec00fc962d7a3faacc24f612e1b437c1893aa": MINATAR[:1],
    "d7f0876c78736a0e354f8837e2a549dc7f45ff4d01f952ba9d547d8afc6f7926": MINATAR[1:2],
    "97ea3f8f9a6e34523dd50c138a1538b33fbd2b1c3a5ee05a31014460825ea9f0": MINATAR[2:3],
    "42845f4c0b6b460789afffb1788f806e676b27acafa0febf34e86bd63d3e362f": MINATAR[3:],
    "16ebb93a79adbcbfdb3e6019986109ee374764cb9cc8b0ad65f69bdcaedd9bb5": ("GROOVE's grids",),
    # multi_OPEN.npy; the repository does not name its environments: all that its command combines
    "9ba2dea70b0b308a365516dab092808b7b9211c70072bca934d83affaee5f60c": (*MINATAR, "brax/ant"),
}
"""Environments that the optimizers have seen, by the SHA-256 of their files."""


def main(argv: Sequence[str]) -> None:
    """Read a file of weights and write a directory with the part."""
    parser = argparse.ArgumentParser("python -m experiments.published")
    parser.add_argument("file", help=WHERE)
    parser.add_argument("directory", help="new or empty")
    args = parser.parse_args(argv)
    try:
        envs, numbers = read(args.file, KNOWN, WHERE)
        part = PARTS[numbers.size]
        unravel = ravel_pytree(part.init(jax.random.key(0)))[1]
        metaevo.save(args.directory, part, unravel(jnp.asarray(numbers)), seen=envs)
    except ValueError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
