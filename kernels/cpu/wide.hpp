// The widest float vector that this build keeps in registers, and what 16 lanes of them need: sums
// in one order on every machine. (A vector wider than the registers is kept in memory by compilers.)

#pragma once

#include <cstdint>
#include <cstring>

namespace tailbreak {

#if defined(__AVX512F__)
constexpr int kWide = 16;
#elif defined(__AVX__)
constexpr int kWide = 8;
#else
constexpr int kWide = 4;
#endif
constexpr int kTile = 16;
constexpr int kParts = kTile / kWide;

using Wide = float __attribute__((vector_size(4 * kWide)));

inline Wide load_wide(const float *source) {
    Wide value;
    std::memcpy(&value, source, sizeof value);
    return value;
}

inline void store_wide(float *target, Wide value) { std::memcpy(target, &value, sizeof value); }

// The two halves of a vector; copies that compilers turn into register moves.
template <class Half, class Whole>
inline Half half_sum(Whole value) {
    Half halves[2];
    std::memcpy(halves, &value, sizeof value);
    return halves[0] + halves[1];
}

using Four = float __attribute__((vector_size(16)));
using Eight = float __attribute__((vector_size(32)));

// Folds 16 lanes to 4: lane i is (i + (i + 8)) + ((i + 4) + (i + 12)).
template <class Part>
inline void fold_to_4(const Part *parts, float *four) {
    Four sum;
    if constexpr (kWide == 16)
        sum = half_sum<Four>(half_sum<Eight>(parts[0]));
    else if constexpr (kWide == 8)
        sum = half_sum<Four>(parts[0] + parts[1]);
    else
        sum = (parts[0] + parts[2]) + (parts[1] + parts[3]);
    std::memcpy(four, &sum, sizeof sum);
}

inline float sum_tile(const float *values) {
    float lanes[8];
    for (int i = 0; i < 8; ++i) lanes[i] = values[i] + values[i + 8];
    for (int i = 0; i < 4; ++i) lanes[i] += lanes[i + 4];
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

inline float largest_of_tile(const float *values) {
    float lanes[8];
    for (int i = 0; i < 8; ++i) lanes[i] = values[i] > values[i + 8] ? values[i] : values[i + 8];
    for (int i = 0; i < 4; ++i) lanes[i] = lanes[i] > lanes[i + 4] ? lanes[i] : lanes[i + 4];
    const float even = lanes[0] > lanes[2] ? lanes[0] : lanes[2];
    const float odd = lanes[1] > lanes[3] ? lanes[1] : lanes[3];
    return even > odd ? even : odd;
}

// e^x for x <= 0, within 2 units in the last place; what is below the smallest normal float is 0.
// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor series, 2^n by the exponent's bits.
inline float exp_of_negative(float x) {
    const float clamped = x > -87.0f ? x : -87.0f;
    const float rounded = clamped * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: rounded to whole
    int32_t n;
    std::memcpy(&n, &rounded, sizeof n);
    const float whole = rounded - 12582912.0f;
    const float r = (clamped - whole * 0.693359375f) - whole * -2.12194440e-4f;
    float series = 1.0f / 5040;
    series = series * r + 1.0f / 720;
    series = series * r + 1.0f / 120;
    series = series * r + 1.0f / 24;
    series = series * r + 1.0f / 6;
    series = series * r + 0.5f;
    series = series * r * r + r + 1.0f;
    int32_t word;
    std::memcpy(&word, &series, sizeof word);
    word += int32_t(uint32_t(n - 0x4b400000) << 23);
    std::memcpy(&series, &word, sizeof word);
    return x >= -87.0f ? series : 0.0f;
}

}  // namespace tailbreak
