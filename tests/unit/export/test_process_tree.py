"""Processes found below a root, under names that they keep."""

import os
import subprocess
import sys

from harness.export.process import Watched
from harness.export.process_tree import LOOK_AGAIN_S, ProcessTree

WAIT = [sys.executable, "-c", "import sys; sys.stdin.read()"]


def test_children_are_found_and_keep_their_name_after_their_end() -> None:
    """A child that comes later is found when it is looked for again; one that ends stays named."""
    tree = ProcessTree()
    tree.add("me", os.getpid())
    before = list(tree.watched(0.0))
    assert before[0] == Watched("me", os.getpid())
    with subprocess.Popen(WAIT, stdin=subprocess.PIPE) as child:
        mine = Watched(f"me/{len(before)}", child.pid)
        assert list(tree.watched(LOOK_AGAIN_S - 0.1)) == before
        assert list(tree.watched(LOOK_AGAIN_S)) == [*before, mine]
    assert list(tree.watched(3 * LOOK_AGAIN_S)) == [*before, mine]


def test_a_root_that_is_gone_is_not_watched() -> None:
    """A number without a process names nothing."""
    tree = ProcessTree()
    tree.add("none", 2**22 - 1)
    assert list(tree.watched(0.0)) == []
