// The noise of a draw: SplitMix64 keyed by (seed, position, token id), as kernels/sampling.py has it.

#pragma once

#include <algorithm>
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
constexpr double kUnit = 0x1p-53, kNearOne = 1 - 0x1p-53;
constexpr uint64_t kAllBits = 0x1FFFFFFFFFFFFF;

// Uniform numbers of one row, as 53 bits; u = (bits + 0.5) / 2^53. As a double that would be 1 for
// the largest bits, and the noise 0: it is held below.
struct Noise {
    uint64_t key;

    Noise(int64_t seed, int64_t position)
        : key(mix(static_cast<uint64_t>(seed) ^
                  mix(static_cast<uint64_t>(position) * kGamma + 0xBF58476D1CE4E5B9u))) {}

    uint64_t bits_of(int64_t id) const { return mix(key + (static_cast<uint64_t>(id) + 1) * kGamma) >> 11; }

    // E = -ln(u), and what it is never below: -ln(u) >= 1 - u. Few tokens have one small enough.
    static double exponential(uint64_t bits) {
        return -std::log(std::min((static_cast<double>(bits) + 0.5) * kUnit, kNearOne));
    }
    static double at_least(uint64_t bits) { return static_cast<double>(kAllBits - bits) * kUnit; }
};

}  // namespace tailbreak
