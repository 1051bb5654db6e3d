"""The seed tree: every random stream is named by a path below the one seed of the run.

Streams are independent of each other and of the order in which they are opened, so adding an axis
or a cell never changes the draws of another.
"""

import hashlib

import numpy as np


def seed_for(root: int, *path: str | int) -> int:
    """64-bit seed of the stream named by `path` under `root` (SHA-256 of the joined path)."""
    text = "\x1f".join([str(root), *map(str, path)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def generator(root: int, *path: str | int) -> np.random.Generator:
    """PCG64 generator of the stream named by `path` under `root`."""
    return np.random.Generator(np.random.PCG64(seed_for(root, *path)))
