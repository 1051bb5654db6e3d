"""The native kernels, C++ built into the package: which build this machine runs, or why none.

The same sources are built as `_portable`, `_avx2` and `_avx512`; the best that the machine runs is
loaded, or the one that the environment variable TAILBREAK_ISA names. Nothing here imports torch.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kernels.cpu import _portable as native

ISAS: Final = ("portable", "avx2", "avx512")
HOW_TO_BUILD: Final = (
    "install a C++20 compiler (Debian, Ubuntu: apt-get install g++), unset TAILBREAK_NATIVE, and "
    "install tailbreak again (make -B setup)"
)


def _load() -> tuple[Any, str | None]:
    """Import the build to use; without one, say why."""
    try:
        portable: Any = importlib.import_module("kernels.cpu._portable")
    except ImportError as error:
        return None, f"tailbreak was installed without native kernels ({error}); {HOW_TO_BUILD}"
    best = portable.best_isa()
    asked = os.environ.get("TAILBREAK_ISA") or best
    runs = ISAS[: ISAS.index(best) + 1]
    if asked not in runs:
        raise ImportError(
            f"TAILBREAK_ISA: got {asked!r}, allowed on this machine: {', '.join(runs)}",
            name="TAILBREAK_ISA",
        )
    return importlib.import_module(f"kernels.cpu._{asked}"), None


if not TYPE_CHECKING:
    native, _problem = _load()
else:
    _problem: str | None = None

PROBLEM: Final[str | None] = _problem
"""Why there are no native kernels; None where there are (`native` is then one of the builds)."""
