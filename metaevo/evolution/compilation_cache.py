"""Keep compiled programs in the user's cache folder, so that they are compiled only once.

JAX manages the cache, which distinguishes programs, versions, devices and flags. It does not
distinguish different kinds of processors that share a home folder, so each kind gets a folder.
"""

import hashlib
import os
import platform
from pathlib import Path

import jax
from filelock import FileLock, Timeout

MAX_BYTES = 2 * 2**30
"""Maximum size of the cache; the least recently used programs are removed beyond it."""


def enable() -> None:
    """Keep what takes a second or longer to compile in `~/.cache/metaevo/xla`.

    A user's own `JAX_COMPILATION_CACHE_DIR` and `JAX_ENABLE_COMPILATION_CACHE=false` are respected.
    Where the folder cannot be written, each process compiles on its own, as JAX does by default.
    """
    chosen = jax.config.values
    if chosen["jax_compilation_cache_dir"] or not chosen["jax_enable_compilation_cache"]:
        return
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(base) / "metaevo" / "xla" / _processor()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # it holds machine code that is run
    except OSError:
        return
    if os.access(folder, os.W_OK) and folder.stat().st_uid == os.getuid():
        _remove_torn(folder)
        jax.config.update("jax_compilation_cache_max_size", MAX_BYTES)
        jax.config.update("jax_compilation_cache_dir", str(folder))


def _remove_torn(folder: Path) -> None:
    """Remove programs that a killed process or a full disk has left half written.

    JAX would warn about each of them in every process and never replace it. JAX writes `...-atime`
    after `...-cache`, so a program without it was not finished.
    """
    try:
        with FileLock(folder / ".lockfile", timeout=0):
            names = {each.name for each in folder.iterdir()}
            for name in names:
                key = name.removesuffix("-cache")
                if key != name and f"{key}-atime" not in names:
                    (folder / name).unlink(missing_ok=True)
    except (OSError, Timeout):  # a running process uses the lock: the next start will do
        return


def _processor() -> str:
    """Return a digest of the processor's kind and instructions."""
    about = platform.processor() + platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        about += "".join(line for line in lines if line.startswith(("model name", "flags")))
    return hashlib.sha256(about.encode()).hexdigest()[:12]
