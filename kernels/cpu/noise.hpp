// The noise of a draw: SplitMix64 keyed by (seed, position, token id), as kernels/sampling.py has it.

#pragma once

#include <cmath>

#include "doubles.hpp"

namespace tailbreak {

// SplitMix64's finaliser, for one word or for a vector of them.
template <class Word>
inline Word mix(Word word) {
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    return word ^ (word >> 31);
}

constexpr uint64_t kGamma = 0x9E3779B97F4A7C15;
constexpr double kUnit = 0x1p-53;

// Uniform numbers of one row. They are told as v = 1 - u of 53 bits: the race -ln(u) is bounded
// below by v, so that a small v is what may win.
struct Noise {
    uint64_t key;

    Noise(int64_t seed, int64_t position)
        : key(mix(static_cast<uint64_t>(seed) ^
                  mix(static_cast<uint64_t>(position) * kGamma + 0xBF58476D1CE4E5B9u))) {}

    // The 53 bits of token `id`; u = (bits + 0.5) / 2^53.
    uint64_t bits_of(int64_t id) const { return mix(key + (static_cast<uint64_t>(id) + 1) * kGamma) >> 11; }

    static double complement(uint64_t bits) { return (static_cast<double>(0x1FFFFFFFFFFFFFu - bits) + 0.5) * kUnit; }
    static double exponential(uint64_t bits) { return -std::log((static_cast<double>(bits) + 0.5) * kUnit); }
};

}  // namespace tailbreak
