// Vectors of 16 lanes in the compilers' own vector types: one source for every instruction set, and
// one order of every sum. What a machine has in narrower registers the compiler cuts to size.

#pragma once

#include <cstdint>
#include <cstring>

namespace tailbreak {

constexpr int kLanes = 16;

using F32 = float __attribute__((vector_size(64)));
using I32 = int32_t __attribute__((vector_size(64)));
using U32 = uint32_t __attribute__((vector_size(64)));
using U16 = uint16_t __attribute__((vector_size(32)));
using U8 = uint8_t __attribute__((vector_size(16)));

// Memory has no alignment that could be relied on: slices begin anywhere.
template <class V>
inline V load(const void *source) {
    V value;
    std::memcpy(&value, source, sizeof value);
    return value;
}

template <class V>
inline void store(void *target, V value) {
    std::memcpy(target, &value, sizeof value);
}

template <class To, class From>
inline To bits(From value) {
    static_assert(sizeof(To) == sizeof(From));
    return (To)value;
}

inline F32 splat(float value) { return F32{} + value; }

inline F32 maximum(F32 a, F32 b) { return a > b ? a : b; }

inline F32 absolute(F32 value) { return bits<F32>(bits<U32>(value) & 0x7fffffffu); }

#if defined(__clang__)
#define TAILBREAK_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define TAILBREAK_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, I32{__VA_ARGS__})
#endif

// Lanes 0, 2, ... and 1, 3, ... of a, then those of b.
inline F32 even_lanes(F32 a, F32 b) {
    return TAILBREAK_SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
inline F32 odd_lanes(F32 a, F32 b) {
    return TAILBREAK_SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}

inline float sum(F32 value) {
    float lanes[kLanes];
    store(lanes, value);
    for (int width = kLanes / 2; width > 0; width /= 2)
        for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    return lanes[0];
}

inline float largest(F32 value) {
    float lanes[kLanes];
    store(lanes, value);
    for (int width = kLanes / 2; width > 0; width /= 2)
        for (int i = 0; i < width; ++i)
            lanes[i] = lanes[i] > lanes[i + width] ? lanes[i] : lanes[i + width];
    return lanes[0];
}

// e^x for x <= 0, within 2 units in the last place; what is below the smallest normal float is 0.
// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor series, 2^n by the exponent's bits.
inline F32 exp_negative(F32 x) {
    F32 is_tiny_as = splat(-87.0f);
    F32 clamped = maximum(x, is_tiny_as);
    F32 rounded = clamped * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: the sum is rounded to whole
    I32 n = bits<I32>(rounded) - 0x4b400000;
    F32 whole = rounded - 12582912.0f;
    F32 r = (clamped - whole * 0.693359375f) - whole * -2.12194440e-4f;
    F32 series = splat(1.0f / 5040);
    series = series * r + 1.0f / 720;
    series = series * r + 1.0f / 120;
    series = series * r + 1.0f / 24;
    series = series * r + 1.0f / 6;
    series = series * r + 0.5f;
    series = series * r * r + r + 1.0f;
    F32 scaled = bits<F32>(bits<I32>(series) + (n << 23));
    return x >= is_tiny_as ? scaled : F32{};
}

}  // namespace tailbreak
