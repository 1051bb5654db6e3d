import os

import numpy as np
import pytest
import torch

from harness.base.rng import generator
from kernels.backend import Backend, record_calls
from kernels.state_codec import (
    Packed,
    decode_fp8,
    encode_fp8,
    fp8_values,
    pack_fp8,
    pack_int4,
    reference_encode_fp8,
    reference_pack_fp8,
    reference_pack_int4,
    unpack_fp8,
    unpack_int4,
)
from tests.kernel_builds import each_build, use


@pytest.fixture(params=each_build.args[1])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    return use(request.param, monkeypatch)


def boundary_patterns() -> np.ndarray:
    """Both signs of every float32 within 40 steps of a code, of a tie, of the ends of the range."""
    sizes = fp8_values()[:127]
    ties = (sizes[1:] + sizes[:-1]) / 2
    ends = [464.0, 480.0, 512.0, 1e9, float(np.finfo(np.float32).tiny), 2.0**-126 / 8]
    centres = np.concatenate([sizes, ties, ends]).astype(np.float32).view(np.uint32)
    near = centres[:, None].astype(np.int64) + np.arange(-40, 41)
    size = np.unique(near[near >= 0]).astype(np.uint32)
    special = np.array([0x7F800000, 0x7F7FFFFF, 1, 2, 0x007FFFFF], np.uint32)
    size = np.concatenate([size, special])
    return np.concatenate([size, size | np.uint32(1 << 31)]).view(np.float32)


def encoded(values: np.ndarray, backend: Backend) -> np.ndarray:
    with record_calls() as calls:
        codes = encode_fp8(torch.from_numpy(values.copy()), backend=backend)
    assert calls == [("encode_fp8", backend)]
    return codes.numpy()


def test_every_rounding_boundary_goes_the_reference_s_way(backend: Backend) -> None:
    """At each tie, each code and each end, and 40 floats to either side, the code is right."""
    values = boundary_patterns()
    assert len(values) > 30_000
    expected = reference_encode_fp8(values.astype(np.float64))
    np.testing.assert_array_equal(encoded(values, backend), expected)


def test_random_patterns_go_torch_s_way(backend: Backend) -> None:
    """Of 2 million random bit patterns each is encoded as torch's cast and as the reference do."""
    bits = generator(5, "fp8").integers(0, 1 << 32, 2_000_000, dtype=np.uint32)
    values = bits.view(np.float32)
    actual = encoded(values, backend)
    number = ~np.isnan(values)
    assert (actual[~number] == 127).all()
    cast = torch.from_numpy(values.copy()).clamp(-448, 448).to(torch.float8_e4m3fn)
    np.testing.assert_array_equal(actual[number], cast.view(torch.uint8).numpy()[number])
    expected = reference_encode_fp8(values[number].astype(np.float64))
    np.testing.assert_array_equal(actual[number], expected)


@pytest.mark.slow
@pytest.mark.skipif("TAILBREAK_ACCURACY" not in os.environ, reason="minutes; make accuracy")
def test_every_bit_pattern_goes_torch_s_way(backend: Backend) -> None:
    """All 2^32 float32 patterns are encoded as torch's saturating cast does."""
    step = 1 << 24
    for begin in range(0, 1 << 32, step):
        values = torch.from_numpy(np.arange(begin, begin + step, dtype=np.uint32).view(np.float32))
        actual = encode_fp8(values, backend=backend)
        cast = values.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
        expected = torch.where(values.isnan(), 127, cast)
        assert torch.equal(actual, expected), f"patterns from {begin:#x}"


def test_all_codes_decode_to_their_numbers(backend: Backend) -> None:
    """The 256 codes give the 254 numbers of the format and two NaN, and encode back."""
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    with record_calls() as calls:
        values = decode_fp8(codes, backend=backend)
    assert calls == [("decode_fp8", backend)]
    np.testing.assert_array_equal(values.numpy().astype(np.float64), fp8_values())
    back = encode_fp8(values, backend=backend)
    number = ~values.isnan()
    assert number.sum() == 254
    assert torch.equal(back[number], codes[number])
    assert np.signbit(values.numpy()[128])  # minus zero


@pytest.mark.parametrize("group", [32, 80, 128])
def test_scaled_groups_are_the_reference_s(backend: Backend, group: int) -> None:
    """FP8 by group has the reference's codes and scales, zero and faulty groups included."""
    values = wild_rows(group)
    packed = pack_fp8(torch.from_numpy(values), group, backend=backend)
    codes, scales = reference_pack_fp8(values, group)
    np.testing.assert_array_equal(packed.scales.numpy().ravel(), scales)
    np.testing.assert_array_equal(packed.codes.numpy(), codes)
    back = unpack_fp8(packed, backend=backend).numpy()
    expected = fp8_values()[codes].astype(np.float32) * scales[:, None]
    np.testing.assert_array_equal(back, expected)


@pytest.mark.parametrize("n", [1, 16, 17, 32, 80, 100, 128])
def test_int4_groups_are_the_reference_s(backend: Backend, n: int) -> None:
    """INT4 has the reference's codes and scales for every length of the last group."""
    values = wild_rows(n)
    packed = pack_int4(torch.from_numpy(values), backend=backend)
    for row, source in enumerate(values):
        codes, scales = reference_pack_int4(source)
        np.testing.assert_array_equal(packed.codes[row].numpy(), codes)
        np.testing.assert_array_equal(packed.scales[row].numpy(), scales)
    back = unpack_int4(packed, n, backend=backend).numpy()
    error = np.abs(back - values)
    limit = np.repeat(packed.scales.numpy(), 32, axis=1)[:, :n] / 2 * (1 + 1e-5)
    assert (error <= limit)[np.isfinite(limit)].all()
    assert np.isnan(back)[np.isnan(limit)].all()


def test_int4_ties_go_to_the_even_code(backend: Backend) -> None:
    """With a scale of 1 the halves between -7 and 7 round to even numbers, and 8 bits hold two."""
    ties = np.zeros((1, 32), np.float32)
    ties[0, :14] = np.arange(-6.5, 7, 1)
    ties[0, 31] = 7.0
    packed = pack_int4(torch.from_numpy(ties), backend=backend)
    back = unpack_int4(packed, 32, backend=backend)
    assert back[0, :14].tolist() == [-6, -6, -4, -4, -2, -2, 0, 0, 2, 2, 4, 4, 6, 6]
    assert packed.codes[0, 15] == 8 | (15 << 4)


@pytest.mark.parametrize("largest", [1, 3, 4, 10, 11, 100, 3000])
def test_groups_of_subnormal_numbers_are_the_reference_s(backend: Backend, largest: int) -> None:
    """Where the scale itself loses bits, or all of them, codes stay within their four bits."""
    steps = np.array([largest, -largest, largest // 2, 1, -1, 0], np.float32)
    values = np.resize(steps * np.float32(2.0**-149), (1, 32))
    packed = pack_int4(torch.from_numpy(values), backend=backend)
    codes, scales = reference_pack_int4(values[0])
    np.testing.assert_array_equal(packed.codes[0].numpy(), codes)
    np.testing.assert_array_equal(packed.scales[0].numpy(), scales)
    packed = pack_fp8(torch.from_numpy(values), 32, backend=backend)
    np.testing.assert_array_equal(packed.codes.numpy(), reference_pack_fp8(values, 32)[0])


def test_the_error_on_normal_numbers(backend: Backend) -> None:
    """RMSE on N(0, 1): INT4 by 32 is 0.097, FP8 0.026 with and without scales."""
    values = torch.from_numpy(generator(1, "rmse").normal(size=(4096, 128)).astype(np.float32))

    def rmse(back: torch.Tensor) -> float:
        return float((back - values).square().mean().sqrt())

    int4 = unpack_int4(pack_int4(values, backend=backend), 128, backend=backend)
    plain = decode_fp8(encode_fp8(values, backend=backend), backend=backend)
    scaled = unpack_fp8(pack_fp8(values, 128, backend=backend), backend=backend)
    assert rmse(int4) == pytest.approx(0.097, abs=0.001)
    assert rmse(plain) == pytest.approx(0.0265, abs=0.0005)
    assert rmse(scaled) == pytest.approx(0.0257, abs=0.0005)


def test_bad_input_is_refused(backend: Backend) -> None:
    """Another type or a shape that does not fit is named, with what is allowed."""
    with pytest.raises(ValueError, match=r"encode_fp8: got torch.float64, allowed torch.float32"):
        encode_fp8(torch.zeros(3, dtype=torch.float64), backend=backend)
    with pytest.raises(ValueError, match=r"group_size 48 for shape \(2, 128\)"):
        pack_fp8(torch.zeros(2, 128), 48, backend=backend)
    packed = pack_int4(torch.zeros(2, 64), backend=backend)
    with pytest.raises(ValueError, match=r"allowed \(..., 64\) and \(..., 4\) for n = 100"):
        unpack_int4(packed, 100, backend=backend)
    with pytest.raises(ValueError, match="unpack_fp8: got codes"):
        unpack_fp8(Packed(packed.codes, torch.zeros(3, 2)), backend=backend)


def test_a_strided_slice_is_read_as_it_looks(backend: Backend) -> None:
    """Values that do not lie side by side give the codes of their copy."""
    wide = torch.from_numpy(generator(2, "stride").normal(size=(8, 96)).astype(np.float32))
    for view in (wide[:, :64], wide.T[:64].T, wide[::2, 32:]):
        assert torch.equal(
            pack_int4(view, backend=backend).codes, pack_int4(view.clone(), backend=backend).codes
        )
        assert torch.equal(
            encode_fp8(view, backend=backend), encode_fp8(view.clone(), backend=backend)
        )


def wild_rows(n: int) -> np.ndarray:
    """Rows over many magnitudes, one of zeros, one with NaN, one with an infinity."""
    rng = generator(n, "wild")
    values = rng.normal(size=(40, n)) * 10.0 ** rng.uniform(-30, 30, (40, 1))
    values[3] = 0.0
    values[4, n // 2] = np.nan
    values[5, 0] = -np.inf
    return values.astype(np.float32)
