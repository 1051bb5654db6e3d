// Random numbers that are a pure function of (seed, row, column), transformed where they are made.
//
// Contract: kernels/monte_carlo.py. Sixteen Philox counters stand side by side in a vector, and the
// four words that each gives go to columns 16 apart: what is computed together is stored together.
// Philox 4x32-10: Salmon, Moraes, Dror, Shaw, Parallel random numbers: as easy as 1, 2, 3 (SC 2011).

#include <algorithm>
#include <cstring>
#include <nanobind/stl/string.h>
#include <string>

#include "lanes.hpp"
#include "module.hpp"

namespace tailbreak {
namespace {

constexpr int64_t kGroup = 4 * kLanes;
constexpr float kTwoTo32 = 1.0f / 4294967296.0f;

struct Words {
    U32 word[4];
};

struct Product {
    U32 high, low;
};

Product multiply(U32 a, uint32_t factor) {
    uint32_t in[kLanes], high[kLanes], low[kLanes];
    store(in, a);
    for (int i = 0; i < kLanes; ++i) {
        const uint64_t product = uint64_t{in[i]} * factor;
        high[i] = static_cast<uint32_t>(product >> 32);
        low[i] = static_cast<uint32_t>(product);
    }
    return {load<U32>(high), load<U32>(low)};
}

Words philox(Words counter, uint32_t key_0, uint32_t key_1) {
    auto &w = counter.word;
    for (int round = 0; round < 10; ++round) {
        const Product first = multiply(w[0], 0xD2511F53u), second = multiply(w[2], 0xCD9E8D57u);
        w[0] = second.high ^ w[1] ^ key_0;
        w[2] = first.high ^ w[3] ^ key_1;
        w[1] = second.low;
        w[3] = first.low;
        key_0 += 0x9E3779B9u;
        key_1 += 0xBB67AE85u;
    }
    return counter;
}

// Exact: 23 bits and a half, so that neither 0 nor 1 comes out.
F32 uniform(U32 word) {
    return (__builtin_convertvector(bits<I32>(word >> 9), F32) + 0.5f) * (1.0f / 8388608.0f);
}

// (word + 1/2) / 2^32, rounded once; small values keep their resolution.
F32 fraction(U32 word) { return (__builtin_convertvector(word, F32) + 0.5f) * kTwoTo32; }

// ln(1 + f) + e ln 2 for f in [sqrt(1/2) - 1, sqrt(2) - 1]: Taylor's series of 2 artanh(s) with
// s = f / (2 + f), of which five terms reach single precision.
F32 log_parts(F32 f, F32 e) {
    const F32 s = f / (f + 2.0f), z = s * s;
    F32 series = splat(2.0f / 9);
    series = series * z + 2.0f / 7;
    series = series * z + 2.0f / 5;
    series = series * z + 2.0f / 3;
    const F32 tail = s * z * series + e * -2.12194440e-4f;
    return (tail + 2.0f * s) + e * 0.693359375f;
}

// Natural logarithm of a positive normal number.
F32 log_positive(F32 x) {
    const I32 pattern = bits<I32>(x), shifted = pattern - 0x3f3504f3;  // sqrt(1/2)
    const I32 exponent = shifted >> 23;
    const F32 mantissa = bits<F32>(pattern - (exponent << 23));
    return log_parts(mantissa - 1.0f, __builtin_convertvector(exponent, F32));
}

// -ln u of u = (word + 1/2) / 2^32, exact at both ends: near 1 the distance to 1 is what is known.
F32 exponential(U32 word) {
    const F32 u = fraction(word), rest = fraction(~word);
    const F32 near_one = log_parts(-rest, F32{});
    return -(rest < 0.29f ? near_one : log_positive(u));
}

struct Pair {
    F32 cosine, sine;
};

// cos and sin of 2 pi word / 2^32: the top bits name the nearest quarter, the rest is a small angle.
Pair turn(U32 word) {
    const U32 quarter = (word + 0x20000000u) >> 30;
    const F32 x = __builtin_convertvector(bits<I32>(word - (quarter << 30)), F32) *
                  (6.283185307f * kTwoTo32);
    const F32 z = x * x;
    F32 sine = splat(-1.0f / 5040);
    sine = sine * z + 1.0f / 120;
    sine = sine * z - 1.0f / 6;
    sine = sine * z * x + x;
    F32 cosine = splat(1.0f / 40320);
    cosine = cosine * z - 1.0f / 720;
    cosine = cosine * z + 1.0f / 24;
    cosine = cosine * z * z - 0.5f * z + 1.0f;
    const U32 cosine_sign = ((quarter + 1u) & 2u) << 30, sine_sign = (quarter & 2u) << 30;
    const auto is_crossed = (quarter & 1u) != 0u;
    const F32 c = is_crossed ? sine : cosine, s = is_crossed ? cosine : sine;
    return {bits<F32>(bits<U32>(c) ^ cosine_sign), bits<F32>(bits<U32>(s) ^ sine_sign)};
}

F32 square_root(F32 x) {
    float lanes[kLanes];
    store(lanes, x);
    for (float &lane : lanes) lane = __builtin_sqrtf(lane);
    return load<F32>(lanes);
}

// 1 / (1 + e^-x), by the exponential of what is not positive.
F32 logistic(F32 x) {
    const F32 small = exp_negative(-absolute(x));
    return (x >= F32{} ? splat(1.0f) : small) / (small + 1.0f);
}

enum class Law { uniform, normal, sigmoid_normal, exponential, gumbel };

// Four vectors of base values, of columns 16 apart.
template <Law law>
void transform(const Words &words, F32 *base) {
    if constexpr (law == Law::normal || law == Law::sigmoid_normal) {
        for (int pair = 0; pair < 2; ++pair) {  // Box and Muller, 1958
            const F32 radius = square_root(2.0f * exponential(words.word[2 * pair]));
            const Pair angle = turn(words.word[2 * pair + 1]);
            base[2 * pair] = radius * angle.cosine;
            base[2 * pair + 1] = radius * angle.sine;
        }
    } else {
        for (int i = 0; i < 4; ++i) {
            if constexpr (law == Law::uniform) base[i] = uniform(words.word[i]);
            if constexpr (law == Law::exponential) base[i] = exponential(words.word[i]);
            if constexpr (law == Law::gumbel) base[i] = -log_positive(exponential(words.word[i]));
        }
    }
}

template <Law law>
void draw_row(float *out, int64_t n, int64_t first, uint64_t seed, uint64_t row, float location,
              float scale) {
    const U32 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    for (int64_t group = first / kGroup; group * kGroup < first + n; ++group) {
        const uint64_t block = static_cast<uint64_t>(group) * kLanes;
        Words words;
        words.word[0] = lane + static_cast<uint32_t>(block);
        words.word[1] = U32{} + static_cast<uint32_t>(block >> 32);
        words.word[2] = U32{} + static_cast<uint32_t>(row);
        words.word[3] = U32{} + static_cast<uint32_t>(row >> 32);
        F32 value[4];
        transform<law>(philox(words, static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)),
                       value);
        for (F32 &each : value) {
            each = each * scale + location;
            if constexpr (law == Law::sigmoid_normal) each = logistic(each);
        }
        const int64_t begin = std::max(first, group * kGroup);
        const int64_t end = std::min(first + n, (group + 1) * kGroup);
        std::memcpy(out + (begin - first), reinterpret_cast<float *>(value) + (begin - group * kGroup),
                    sizeof(float) * static_cast<size_t>(end - begin));
    }
}

using DrawRow = void (*)(float *, int64_t, int64_t, uint64_t, uint64_t, float, float);

DrawRow find(const std::string &law) {
    if (law == "uniform") return draw_row<Law::uniform>;
    if (law == "normal") return draw_row<Law::normal>;
    if (law == "sigmoid_normal") return draw_row<Law::sigmoid_normal>;
    if (law == "exponential") return draw_row<Law::exponential>;
    if (law == "gumbel") return draw_row<Law::gumbel>;
    throw nb::value_error("monte_carlo: unknown law");
}

using Result = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Values = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void draw(Result result, const std::string &law, int64_t seed, Rows rows, int64_t first_column,
          Values location, Values scale) {
    const size_t n_rows = result.shape(0);
    const auto n_columns = static_cast<int64_t>(result.shape(1));
    if (rows.shape(0) != n_rows || location.shape(0) != n_rows || scale.shape(0) != n_rows)
        throw nb::value_error("monte_carlo: rows, location and scale must have one entry for each row");
    if (first_column < 0) throw nb::value_error("monte_carlo: first_column must not be negative");
    const DrawRow draw_one = find(law);
    nb::gil_scoped_release released;
    for (size_t i = 0; i < n_rows; ++i)
        draw_one(result.data() + static_cast<int64_t>(i) * n_columns, n_columns, first_column,
                 static_cast<uint64_t>(seed), static_cast<uint64_t>(rows.data()[i]),
                 location.data()[i], scale.data()[i]);
}

using Bits = nb::ndarray<const uint32_t, nb::shape<6>, nb::c_contig, nb::device::cpu>;
using Output = nb::ndarray<uint32_t, nb::shape<4>, nb::c_contig, nb::device::cpu>;

void block(Bits counter_and_key, Output output) {
    Words words;
    for (int i = 0; i < 4; ++i) words.word[i] = U32{} + counter_and_key.data()[i];
    words = philox(words, counter_and_key.data()[4], counter_and_key.data()[5]);
    for (int i = 0; i < 4; ++i) output.data()[i] = words.word[i][0];
}

}  // namespace

void bind_monte_carlo(nb::module_ &m) {
    m.def("draw_monte_carlo", &draw, nb::arg("result").noconvert(), nb::arg("law"), nb::arg("seed"),
          nb::arg("rows").noconvert(), nb::arg("first_column"), nb::arg("location").noconvert(),
          nb::arg("scale").noconvert());
    m.def("philox_block", &block, nb::arg("counter_and_key").noconvert(), nb::arg("output").noconvert());
}

}  // namespace tailbreak
