"""The environment of a process that compiles for a GPU that is not there. Does not import JAX."""

import os


def setup() -> None:
    """Let JAX compute on the CPU and load CUDA without a device; call it before importing JAX."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
