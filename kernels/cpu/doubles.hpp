// Vectors of 8 double and 8 64-bit lanes: where float decides too little. See lanes.hpp.

#pragma once

#include "lanes.hpp"

namespace tailbreak {

using F64 = double __attribute__((vector_size(64)));
using U64 = uint64_t __attribute__((vector_size(64)));
using I64 = int64_t __attribute__((vector_size(64)));
using F32Half = float __attribute__((vector_size(32)));

inline F64 widen(const float *source) { return __builtin_convertvector(load<F32Half>(source), F64); }

inline F64 splat64(double value) { return F64{} + value; }

inline double sum(F64 value) {
    double lanes[8];
    store(lanes, value);
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

// e^x for x <= 0, within 2 units in the last place; 0 below -708 and for NaN.
// x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor series, 2^n by the exponent's bits.
inline F64 exp_negative(F64 x) {
    const I64 is_normal = x >= -708.0;
    const F64 clamped = is_normal ? x : F64{};
    const F64 rounded = clamped * 1.4426950408889634 + 6755399441055744.0;  // 1.5 * 2^52
    const I64 n = bits<I64>(rounded) - 0x4338000000000000;
    const F64 whole = rounded - 6755399441055744.0;
    const F64 r = (clamped - whole * 6.93147180369123816490e-01) - whole * 1.90821492927058770002e-10;
    const F64 r2 = r * r, r4 = r2 * r2;
    const F64 low = (1.0 + r) + r2 * (1.0 / 2 + r * (1.0 / 6));
    const F64 middle = (1.0 / 24 + r * (1.0 / 120)) + r2 * (1.0 / 720 + r * (1.0 / 5040));
    const F64 high = (1.0 / 40320 + r * (1.0 / 362880)) + r2 * (1.0 / 3628800 + r * (1.0 / 39916800)) +
                     r4 * (1.0 / 479001600);
    const F64 series = low + r4 * (middle + r4 * high);
    return is_normal ? bits<F64>(bits<I64>(series) + (n << 52)) : F64{};
}

}  // namespace tailbreak
