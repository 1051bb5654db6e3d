#include "row.hpp"

#include <algorithm>
#include <cmath>

namespace tailbreak {
namespace {

constexpr float kNothing = -__builtin_inff();

// Largest logit of each of 16 vectors, as one vector: a tree of neighbours.
inline F32 row_maxima(F32 *rows) {
    for (int width = kLanes; width > 1; width /= 2)
        for (int i = 0; i < width / 2; ++i) {
            F32 a = rows[2 * i], b = rows[2 * i + 1];
            rows[i] = maximum(even_lanes(a, b), odd_lanes(a, b));
        }
    return rows[0];
}

// 16 lanes of maxima of a whole tile. `magnitudes` gathers |x| as bits, where NaN is the largest.
inline F32 tile_maxima(const float *tile, I32 &magnitudes) {
    F32 one = splat(kNothing), two = one;
    for (int at = 0; at < kTile; at += 2 * kLanes) {
        const F32 a = load<F32>(tile + at), b = load<F32>(tile + at + kLanes);
        one = maximum(a, one);
        two = maximum(b, two);
        const I32 bits_a = bits<I32>(a) & 0x7fffffff, bits_b = bits<I32>(b) & 0x7fffffff;
        magnitudes = bits_a > magnitudes ? bits_a : magnitudes;
        magnitudes = bits_b > magnitudes ? bits_b : magnitudes;
    }
    return maximum(one, two);
}

// 2^t for t <= 0 within 4e-7; what is below 2^-125 (or NaN) is 2^-125.
inline F32 power_of_two(F32 t) {
    const F32 clamped = maximum(t, splat(-125.0f));
    const F32 rounded = clamped + 12582912.0f;  // 1.5 * 2^23: the sum is rounded to whole
    const F32 f = clamped - (rounded - 12582912.0f);
    const F32 f2 = f * f;
    const F32 series = (1.0f + f * 0.69314718f) + f2 * ((0.24022651f + f * 0.05550411f) +
                                                        f2 * (0.00961813f + f * 0.00133336f));
    return bits<F32>(bits<I32>(series) + (bits<I32>(rounded) << 23));
}

}  // namespace

Row survey(const float *logits, int64_t n, double temperature, std::vector<float> &peaks) {
    const int64_t n_tiles = (n + kTile - 1) / kTile, n_whole = n / kTile;
    peaks.resize(static_cast<size_t>(n_tiles));
    I32 magnitudes{};
    int64_t tile = 0;
    for (; tile + kLanes <= n_whole; tile += kLanes) {
        F32 maxima[kLanes];
        for (int i = 0; i < kLanes; ++i) maxima[i] = tile_maxima(logits + (tile + i) * kTile, magnitudes);
        store(&peaks[static_cast<size_t>(tile)], row_maxima(maxima));
    }
    for (; tile < n_whole; ++tile)
        peaks[static_cast<size_t>(tile)] = largest(tile_maxima(logits + tile * kTile, magnitudes));
    bool has_nan = false;
    for (int lane = 0; lane < kLanes; ++lane) has_nan |= magnitudes[lane] > 0x7f800000;
    if (n_whole < n_tiles) {
        float peak = kNothing;
        for (int64_t at = n_whole * kTile; at < n; ++at) {
            has_nan |= std::isnan(logits[at]);
            if (logits[at] > peak) peak = logits[at];
        }
        peaks.back() = peak;
    }
    float top = kNothing;
    for (float peak : peaks) top = std::max(top, peak);
    return {logits, n, peaks.data(), n_tiles, top, has_nan, temperature, 0};
}

double steer_total(const Row &row) {
    const float scale = static_cast<float>(1.4426950408889634 / row.temperature);
    // What lies this far below the peak of the row adds less than 1e-8 of its weight in all.
    const double reach = std::log(static_cast<double>(row.n)) + 18.5;
    if (row.total > 0) return row.total;
    double total = 0;
    for (int64_t tile = 0; tile < row.n_tiles; ++tile) {
        if (!(row.height(row.peaks[tile]) >= -reach)) continue;
        const int64_t begin = tile * kTile, end = row.end_of(tile);
        F32 one{}, two{};
        int64_t at = begin;
        for (; at + 2 * kLanes <= end; at += 2 * kLanes) {
            one += power_of_two((load<F32>(row.logits + at) - row.largest) * scale);
            two += power_of_two((load<F32>(row.logits + at + kLanes) - row.largest) * scale);
        }
        total += sum(one + two);
        for (; at < end; ++at)
            if (row.logits[at] > kNothing) total += std::exp(row.height(row.logits[at]));
    }
    return total;
}

double exact_total(const Row &row) {
    if (row.total > 0) return row.total;
    const double largest = row.largest, scale = 1 / row.temperature;
    F64 one{}, two{};
    int64_t at = 0;
    for (; at + kLanes <= row.n; at += kLanes) {
        one += exp_negative((widen(row.logits + at) - largest) * scale);
        two += exp_negative((widen(row.logits + at + 8) - largest) * scale);
    }
    double total = sum(one) + sum(two);
    for (; at < row.n; ++at)
        if (row.logits[at] > kNothing) total += std::exp(row.height(row.logits[at]));
    return total;
}

}  // namespace tailbreak
