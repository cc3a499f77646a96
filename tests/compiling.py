"""XLA's flags for short compilations, which take most of the tests' time.

They change only the last bits of results, and programs run slower: level 0 shortens compilation by
a quarter, and kernels without MLIR's emitters, which jaxlib 0.11 no longer has, to less than half.
Code in one piece instead of up to 32 saves 8%, and parallel tests use all cores anyway.
"""

from importlib.metadata import version

HAS_OTHER_EMITTERS = tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11)
SHORT = "--xla_backend_optimization_level=0" + (
    " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    if HAS_OTHER_EMITTERS
    else ""
)
