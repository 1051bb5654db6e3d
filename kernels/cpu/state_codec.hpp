// FP8 E4M3 and INT4, element by element: plain loops that compilers turn into vector code. Used by
// the codec's own ops and by paged attention.

#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

namespace tailbreak {

constexpr int kInt4Group = 32;
constexpr int kInt4Bytes = kInt4Group / 2;
constexpr float kFp8Largest = 448.0f;
constexpr float kInt4Largest = 7.0f;

inline int64_t int4_groups(int64_t n) { return (n + kInt4Group - 1) / kInt4Group; }

inline uint32_t float_bits(float value) {
    uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    return word;
}

inline float bits_float(uint32_t word) {
    float value;
    std::memcpy(&value, &word, sizeof value);
    return value;
}

// Round to nearest even by integers alone, saturate; NaN is 127. A float32's exponent is biased by
// 127, E4M3's by 7, and 20 mantissa bits go; below 2^-6 codes are multiples of 2^-9.
inline uint8_t encode_fp8(float value) {
    const uint32_t word = float_bits(value), sign = (word >> 24) & 0x80u, size = word & 0x7fffffffu;
    const uint32_t capped = size > 0x43e00000u ? 0x43e00000u : size;  // 448
    const uint32_t normal = (capped + 0x7ffffu + ((capped >> 20) & 1u) - (120u << 23)) >> 20;
    const uint32_t mantissa = (capped & 0x7fffffu) | 0x800000u;
    const int32_t wanted = 141 - int32_t(capped >> 23);
    const uint32_t shift = wanted > 25 ? 25 : (wanted < 1 ? 1 : wanted);
    const uint32_t subnormal = (mantissa + (1u << (shift - 1)) - 1u + ((mantissa >> shift) & 1u)) >> shift;
    const uint32_t code = capped >= 0x3c800000u ? normal : subnormal;  // 2^-6
    return uint8_t(size > 0x7f800000u ? 0x7fu : code | sign);
}

// What the 256 codes stand for; looking them up is as fast as computing them.
struct Fp8Values {
    float values[256];

    Fp8Values() {
        for (int code = 0; code < 256; ++code) {
            const int size = code & 127;
            const float value = size < 8 ? float(size) * 0x1p-9f : bits_float((uint32_t(size) << 20) + (120u << 23));
            values[code] = size == 127 ? std::numeric_limits<float>::quiet_NaN() : code < 128 ? value : -value;
        }
    }
};

extern const Fp8Values kFp8;

// Scale of a group: its largest size / largest code; NaN when a value is not finite. Sizes are
// compared as integers, which orders NaN and infinity above all numbers.
inline float scale_of(const float *values, int64_t n, float largest_code) {
    uint32_t largest = 0;
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t size = float_bits(values[i]) & 0x7fffffffu;
        largest = size > largest ? size : largest;
    }
    if (largest >= 0x7f800000u) return std::numeric_limits<float>::quiet_NaN();
    return bits_float(largest) / largest_code;
}

// Encodes a group by its own scale and returns it; all codes are 0 where the scale is 0.
inline float pack_fp8(const float *values, uint8_t *codes, int64_t n) {
    const float scale = scale_of(values, n, kFp8Largest);
    if (scale == 0.0f)
        std::memset(codes, 0, n);
    else
        for (int64_t i = 0; i < n; ++i) codes[i] = encode_fp8(values[i] / scale);
    return scale;
}

inline void unpack_fp8(const uint8_t *codes, float scale, float *values, int64_t n) {
    for (int64_t i = 0; i < n; ++i) values[i] = kFp8.values[codes[i]] * scale;
}

// x / scale, half to even by adding 1.5 * 2^23, within [-8, 7], plus 8; 8 where there is no number.
inline uint32_t nibble(float value, float scale) {
    float quotient = value / scale;
    quotient = quotient == quotient ? quotient : 0.0f;
    quotient = quotient < -8.0f ? -8.0f : quotient;
    quotient = quotient > 7.0f ? 7.0f : quotient;
    return float_bits(quotient + 12582912.0f) - 0x4b400000u + 8u;
}

// One row of n values in groups of 32, the last one filled up with zeros.
inline void pack_int4(const float *values, uint8_t *codes, float *scales, int64_t n) {
    float padded[kInt4Group] = {};
    for (int64_t begin = 0; begin < n; begin += kInt4Group, codes += kInt4Bytes, ++scales) {
        const float *group = values + begin;
        if (n - begin < kInt4Group) {
            std::memcpy(padded, group, (n - begin) * sizeof(float));
            group = padded;
        }
        const float scale = *scales = scale_of(group, kInt4Group, kInt4Largest);
        for (int i = 0; i < kInt4Bytes; ++i)
            codes[i] = uint8_t(nibble(group[i], scale) | (nibble(group[i + kInt4Bytes], scale) << 4));
    }
}

inline void unpack_int4_group(const uint8_t *codes, float scale, float *values) {
    for (int i = 0; i < kInt4Bytes; ++i) values[i] = float(int32_t(codes[i] & 15) - 8) * scale;
    for (int i = 0; i < kInt4Bytes; ++i) values[i + kInt4Bytes] = float(int32_t(codes[i] >> 4) - 8) * scale;
}

inline void unpack_int4(const uint8_t *codes, const float *scales, float *values, int64_t n) {
    for (; n >= kInt4Group; n -= kInt4Group, codes += kInt4Bytes, values += kInt4Group)
        unpack_int4_group(codes, *scales++, values);
    if (n > 0) {
        float group[kInt4Group];
        unpack_int4_group(codes, *scales, group);
        std::memcpy(values, group, n * sizeof(float));
    }
}

}  // namespace tailbreak
