"""XLA's flags for short compilations, which take most of the tests' time.

They change only the last bits of results, and programs run slower: level 0 shortens compilation by
a quarter, and kernels without MLIR's emitters, which jaxlib 0.11 no longer has, to less than half.
"""

from importlib.metadata import version

HAS_OTHER_EMITTERS = tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11)
SHORT = "--xla_backend_optimization_level=0" + (
    " --xla_cpu_use_fusion_emitters=false" if HAS_OTHER_EMITTERS else ""
)
