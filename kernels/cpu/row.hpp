// One row of logits and the largest logit of each of its tiles: what every search in it starts from.
//
// Float may steer here (which tiles to read again), double decides.

#pragma once

#include <cfloat>
#include <vector>

#include "doubles.hpp"

namespace tailbreak {

constexpr int64_t kTile = 256;

// How far steer_total may be off, relative; a bound with room (measured: below 1e-6).
constexpr double kSteerError = 1e-5;

struct Row {
    const float *logits;
    int64_t n;
    const float *peaks;  // largest logit of each tile; -inf where there is none
    int64_t n_tiles;
    float largest;
    bool has_nan;
    double temperature;
    double total = 0;  // sum of exp(height) in double, where it is known already

    // Logarithm of a token's weight, relative to the largest: <= 0.
    double height(float logit) const {
        return (static_cast<double>(logit) - static_cast<double>(largest)) / temperature;
    }
    int64_t end_of(int64_t tile) const { return tile + 1 < n_tiles ? (tile + 1) * kTile : n; }
};

// Reads the row once. `peaks` is the room for the tiles' peaks, which the row then points at.
Row survey(const float *logits, int64_t n, double temperature, std::vector<float> &peaks);

// Sum of exp(height) over the row: quickly, within kSteerError; and in double.
double steer_total(const Row &row);
double exact_total(const Row &row);

// Calls visit(id) for every id in [begin, end) for which `is_hit` holds; 16 at a time.
// is_hit takes 16 logits and gives 16 lanes of 0 or -1.
template <class IsHit, class Visit>
inline void visit_hits(const float *logits, int64_t begin, int64_t end, IsHit is_hit, Visit visit) {
    using I8 = int8_t __attribute__((vector_size(16)));
    for (int64_t at = begin; at < end; at += kLanes) {
        float padded[kLanes];
        const float *source = logits + at;
        if (end - at < kLanes) {
            for (int lane = 0; lane < kLanes; ++lane) padded[lane] = at + lane < end ? source[lane] : __builtin_nanf("");
            source = padded;
        }
        I8 hits = __builtin_convertvector(is_hit(load<F32>(source)), I8);
        for (int64_t lane = end - at; lane < kLanes; ++lane) hits[lane] = 0;
        uint64_t halves[2];
        std::memcpy(halves, &hits, sizeof halves);
        for (int half = 0; half < 2; ++half)
            for (uint64_t rest = halves[half]; rest; rest &= ~(uint64_t{0xff} << (__builtin_ctzll(rest) & ~7)))
                visit(at + 8 * half + __builtin_ctzll(rest) / 8);
    }
}

}  // namespace tailbreak
