"""Published weights of learned rules, read from a file that the user names.

    metaevo train --make_optimizer path/to/breakout_OPEN.npy

The weights are not part of metaevo: `RULES` has their places, and the digests by which their files
are recognised. They fill a slot as an evolved part does, so a run keeps a copy.
"""

import hashlib
import io
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from metaevo.config import ConfigError, files
from metaevo.config.plain import PlainDict
from metaevo.parts.classes import part_class
from metaevo.parts.part import Part, Parts
from purerl.types import PyTree

NAME = "open"
"""of the part"""
ARRAY = ".npy"
"""The end of the names of the files."""
REPOSITORY = "github.com/AlexGoldie/rl-learned-optimization"
SLOT = "make_optimizer"


class Published(NamedTuple):
    """Weights that the authors of a rule have published."""

    name: str
    """of the rule in tables and on the command line"""
    file: str
    """path in the repository"""
    sha256: str
    """of the file"""
    envs: tuple[str, ...]
    """environments that the rule has seen, by their names in metaevo where they have one"""
    sizes: tuple[int, int]
    """of its memory and its hidden layers"""

    def part(self) -> Part:
        """Return the part, without its weights."""
        memory_size, hidden_size = self.sizes
        settings: PlainDict = {
            "memory_size": memory_size,
            "hidden_size": hidden_size,
            "published": True,
        }
        return part_class(NAME)(**settings)

    def source(self) -> PlainDict:
        """Return where the weights come from, as plain data."""
        return {
            "repository": REPOSITORY,
            "file": self.file,
            "sha256": self.sha256,
            "licence": "Apache-2.0",
        }


MINATAR = "Asterix-MinAtar", "Breakout-MinAtar", "Freeway-MinAtar", "SpaceInvaders-MinAtar"
ANT = "brax/ant"
OPEN = {
    "ant": ("e1901cafe323d1c5619b84e5178b3075c95a7cde920777e2c15e58c812c3e725", (ANT,)),
    "asterix": ("55d96c80dca70e4a308352798daec00fc962d7a3faacc24f612e1b437c1893aa", MINATAR[:1]),
    "breakout": ("d7f0876c78736a0e354f8837e2a549dc7f45ff4d01f952ba9d547d8afc6f7926", MINATAR[1:2]),
    "freeway": ("97ea3f8f9a6e34523dd50c138a1538b33fbd2b1c3a5ee05a31014460825ea9f0", MINATAR[2:3]),
    "gridworld": (
        "16ebb93a79adbcbfdb3e6019986109ee374764cb9cc8b0ad65f69bdcaedd9bb5",
        ("GROOVE's grids",),
    ),
    # The repository does not name its environments: these are all that its command can combine.
    "multi": (
        "9ba2dea70b0b308a365516dab092808b7b9211c70072bca934d83affaee5f60c",
        (*MINATAR, ANT),
    ),
    "spaceinvaders": (
        "42845f4c0b6b460789afffb1788f806e676b27acafa0febf34e86bd63d3e362f",
        MINATAR[3:],
    ),
}
"""The optimizers of Goldie et al. 2024: digests of their files, and environments they have seen."""
LARGER = "multi"
"""has a GRU of 16 and hidden layers of 32"""


def _open(name: str, sha256: str, envs: tuple[str, ...]) -> Published:
    sizes = (16, 32) if name == LARGER else (8, 16)
    file = f"rl_optimizer/pretrained/{name}_OPEN.npy"
    return Published(f"open-{name}", file, sha256, envs, sizes)


RULES = tuple(_open(name, *about) for name, about in OPEN.items())
"""All published rules that can be read."""


def is_file_name(text: str | Path) -> bool:
    """Whether a setting names a file of weights instead of a run's directory."""
    return str(text).endswith(ARRAY)


def find(path: str | Path) -> Published:
    """Return which published rule a file holds.

    Raises:
        ConfigError: if the file cannot be read, or is none of `RULES`.
    """
    return _read(Path(path))[0]


def load(path: str | Path) -> tuple[Parts, PyTree]:
    """Return a published rule, and its weights.

    Raises:
        ConfigError: as `find` does.
    """
    found, content = _read(Path(path))
    numbers = np.load(io.BytesIO(content), allow_pickle=False)
    return Parts.single(found.part()), unflatten(numbers, found.sizes)


def seen(rule: Published) -> PlainDict:
    """Return the environments that it has seen, as in the settings of an evolution."""
    return {"task": {"env": list(rule.envs)}}


def _read(path: Path) -> tuple[Published, bytes]:
    """Return the rule and the content of its file."""
    content = files.read(path)
    digest = hashlib.sha256(content).hexdigest()
    for rule in RULES:
        if rule.sha256 == digest:
            return rule, content
    names = ", ".join(Path(rule.file).name for rule in RULES)
    raise ConfigError(
        f"{path}: its SHA-256 begins with {digest[:8]} ({len(content):,} bytes): must be an "
        f"unaltered file of {REPOSITORY} ({names})"
    )


def unflatten(numbers: np.ndarray, sizes: tuple[int, int]) -> PyTree:
    """Return OPEN's weights as the meta-parameters of `metaevo.parts.open`.

    The authors sort the arrays by flax's names, with kernels [inputs, outputs]: the gates new,
    reset and update for the memory (hn, hr, hz) and for the inputs (in, ir, iz), then the network.
    """
    from metaevo.parts import open as open_part

    memory, hidden = sizes
    inputs, outputs = len(open_part.INPUTS), open_part.OUTPUTS
    rest = [jnp.asarray(numbers)]

    def take(*shape: int) -> jnp.ndarray:
        size = int(np.prod(shape))
        taken, rest[0] = rest[0][:size], rest[0][size:]
        return taken.reshape(shape)

    memory_bias, hn = take(memory), take(memory, memory)
    hr, hz = take(memory, memory), take(memory, memory)
    gates = [(take(memory), take(inputs, memory)) for _ in range(3)]
    new, reset, update = gates
    biases, kernels = zip(reset, update, new, strict=True)

    def dense(inputs: int, outputs: int) -> PlainDict:
        bias = take(outputs)
        return {"bias": bias, "kernel": take(inputs, outputs).T}

    def norm() -> PlainDict:
        return {"bias": take(hidden), "scale": take(hidden)}

    return {
        "gru": {
            "inputs": jnp.concatenate(kernels, axis=1).T[:, _their_columns(open_part)],
            "bias": jnp.concatenate(biases),
            "memory": jnp.concatenate([hr, hz, hn], axis=1).T,
            "memory_bias": memory_bias,
        },
        "first": dense(memory, hidden),
        "first_norm": norm(),
        "second": dense(hidden, hidden),
        "second_norm": norm(),
        "output": dense(hidden, outputs),
    }


def _their_columns(open_part: Any) -> np.ndarray:
    """Return the places of our inputs among theirs, which have all signs before all logarithms."""
    momenta = open_part.MOMENTA
    signs, logs = ([f"{kind} of {name}" for name in momenta] for kind in ("sign", "log"))
    of_momenta = len(signs) + len(logs)
    ours = open_part.INPUTS
    theirs = [ours[0], *signs, *logs, *ours[1 + of_momenta :]]
    return np.array([theirs.index(name) for name in ours])
