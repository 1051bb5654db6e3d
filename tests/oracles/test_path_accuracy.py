"""The accelerated path's distributions against the baseline's, over many prompts.

The size here is reduced; `make accuracy` sets TAILBREAK_ACCURACY for the 10,000 positions.
"""

import os
import sys

import pytest

from harness.server.accel import read_features
from harness.server.fidelity.check import Subject, check
from harness.server.fidelity.settings import SETTINGS
from harness.server.fidelity.work import build_works
from harness.server.options import ServerOptions
from harness.server.sequence import BASELINE
from kernels.backend import has_native
from kernels.divergence import measure_divergence
from tests.unit.server import build
from tests.unit.server.test_packed_state import forced_logits

IS_FULL = bool(os.environ.get("TAILBREAK_ACCURACY"))
N_POSITIONS = 10_000 if IS_FULL else 500
TEMPERATURE = next(each for each in SETTINGS if each.name == "temperature")


@pytest.mark.skipif(not has_native(), reason="the paths differ by the native kernels")
def test_exact_paths_say_the_same_at_every_position() -> None:
    """KL at each position: mean below 1e-7, largest below 1e-5, nothing excluded by one only."""
    n, total, largest, seed = 0, 0.0, 0.0, 0
    while n < N_POSITIONS:
        options = ServerOptions(threads=1)
        subject = Subject(
            engine=build.engine(threads=1),
            works=build_works(build.tokenizer(), options, max_model_len=2048, seed=seed),
            banned=build.control_ids() + build.stop_ids(),
            batch=8,
            baseline=(),
            paths=[("true", read_features("true"))],
            n_draws=0,
            seed=seed,
            settings=(TEMPERATURE,),
        )
        (path,) = check(subject, lambda _: None)
        positions = path.settings[0].positions
        assert positions.n_close == positions.n_infinite == 0
        assert positions.kl.mean is not None
        assert positions.kl.maximum is not None
        n += positions.n
        total += positions.n * positions.kl.mean
        largest = max(largest, positions.kl.maximum)
        seed += 1
    sys.stdout.write(f"{n} positions: KL mean {total / n:.2g}, largest {largest:.2g}\n")
    assert 0 < total / n < 1e-7  # not zero: two paths were compared
    assert largest < 1e-5


def test_logits_in_bfloat16_move_little() -> None:
    """Of 2,000 positions whose logits are rounded to bfloat16, KL is below 1e-4 on average."""
    logits = forced_logits(BASELINE)
    kl = measure_divergence(logits, logits.bfloat16()).kl
    assert len(kl) > 2000
    assert 1e-7 < float(kl.mean()) < 1e-4
