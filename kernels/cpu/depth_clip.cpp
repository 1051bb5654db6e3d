// Clips of a depth field by its surroundings, and of logits by their depth below the largest.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "arrays.hpp"

using namespace nb::literals;

namespace tailbreak {
namespace {

using Field = Array<const float, 2>;

// Number, sum and sum of squares of a column's valid pixels, of the rows in reach. Values are taken
// from an origin near them, lest the difference of squares lose them.
struct Columns {
    std::vector<double> n, sum, squares;

    explicit Columns(int64_t width) : n(width), sum(width), squares(width) {}

    void add(const float *depth, const uint8_t *counts, int64_t width, double origin, double sign) {
        for (int64_t x = 0; x < width; ++x) {
            const double value = counts[x] ? double(depth[x]) - origin : 0.0;
            n[x] += sign * double(counts[x]);
            sum[x] += sign * value;
            squares[x] += sign * (value * value);
        }
    }
};

// Sums of 2 * radius + 1 neighbours in a row, for every place; beyond the ends there is nothing.
void sum_across(const std::vector<double> &source, int64_t radius, double *target) {
    const int64_t width = int64_t(source.size());
    std::fill(target, target + width, 0.0);
    for (int64_t shift = -radius; shift <= radius; ++shift) {
        const int64_t begin = std::max<int64_t>(0, -shift), end = std::min(width, width - shift);
        for (int64_t x = begin; x < end; ++x) target[x] += source[x + shift];
    }
}

double mean_of(Field depth, const std::vector<uint8_t> &counts) {
    double sum = 0.0, n = 0.0;
    for (size_t i = 0; i < depth.size(); ++i)
        if (counts[i]) sum += depth.data()[i], n += 1.0;
    return n > 0 ? sum / n : 0.0;
}

void clip_depth_field(Field depth, Array<const bool, 2> valid, Array<float, 2> result, int64_t radius,
                      double n_sigma, double floor, double ceiling) {
    const int64_t height = depth.shape(0), width = depth.shape(1);
    require(int64_t(valid.shape(0)) == height && int64_t(valid.shape(1)) == width &&
                int64_t(result.shape(0)) == height && int64_t(result.shape(1)) == width,
            "depth_clip: got a mask or a result of another shape than the field");
    require(radius >= 1, "depth_clip: got radius " + text(radius) + ", allowed 1 and more");
    std::vector<uint8_t> counts(depth.size());
    for (size_t i = 0; i < counts.size(); ++i)
        counts[i] = valid.data()[i] && std::fabs(depth.data()[i]) <= std::numeric_limits<float>::max();
    const double origin = mean_of(depth, counts);
    Columns columns(width);
    std::vector<double> n(width), sum(width), squares(width);
    const auto row_of = [&](int64_t y, double sign) {
        if (y >= 0 && y < height) columns.add(depth.data() + y * width, counts.data() + y * width, width, origin, sign);
    };
    for (int64_t y = 0; y < std::min(radius, height); ++y) row_of(y, 1.0);
    for (int64_t y = 0; y < height; ++y) {
        row_of(y + radius, 1.0);
        row_of(y - radius - 1, -1.0);
        sum_across(columns.n, radius, n.data());
        sum_across(columns.sum, radius, sum.data());
        sum_across(columns.squares, radius, squares.data());
        const float *source = depth.data() + y * width;
        const uint8_t *counted = counts.data() + y * width;
        float *target = result.data() + y * width;
        for (int64_t x = 0; x < width; ++x) {
            const double value = counted[x] ? double(source[x]) - origin : 0.0;
            const double others = n[x] - 1.0, divisor = others > 0.5 ? others : 1.0;
            const double mean = (sum[x] - value) / divisor;
            const double variance = (squares[x] - value * value) / divisor - mean * mean;
            const double reach = n_sigma * std::sqrt(variance > 0 ? variance : 0.0);
            const bool has_bounds = others > 1.5;
            const double lowest = has_bounds ? origin + mean - reach : floor;
            const double highest = has_bounds ? origin + mean + reach : ceiling;
            const double low = std::min(std::max(lowest, floor), ceiling);
            const double high = std::min(std::max(highest, floor), ceiling);
            const double clipped = std::min(std::max(double(source[x]), low), high);
            target[x] = counted[x] ? float(clipped) : source[x];
        }
    }
}

void clip_logits(Field logits, float depth, Array<float, 2> result) {
    require(result.shape(0) == logits.shape(0) && result.shape(1) == logits.shape(1),
            "depth_clip: got a result of another shape than the logits");
    constexpr float kNothing = -std::numeric_limits<float>::infinity();
    const int64_t n = logits.shape(1);
    for (size_t row = 0; row < logits.shape(0); ++row) {
        const float *source = logits.data() + row * n;
        float *target = result.data() + row * n;
        float lanes[16];
        std::fill(lanes, lanes + 16, kNothing);
        int64_t i = 0;
        for (; i + 16 <= n; i += 16)
            for (int j = 0; j < 16; ++j) lanes[j] = source[i + j] > lanes[j] ? source[i + j] : lanes[j];
        for (; i < n; ++i) lanes[0] = source[i] > lanes[0] ? source[i] : lanes[0];
        const float limit = *std::max_element(lanes, lanes + 16) - depth;
        for (i = 0; i < n; ++i) target[i] = source[i] >= limit ? source[i] : kNothing;
    }
}

}  // namespace

void bind_depth_clip(nb::module_ &m) {
    m.def("clip_depth_field", &clip_depth_field, "depth"_a.noconvert(), "valid"_a.noconvert(), "result"_a.noconvert(),
          "radius"_a, "n_sigma"_a, "floor"_a, "ceiling"_a, nb::call_guard<nb::gil_scoped_release>());
    m.def("clip_logits", &clip_logits, "logits"_a.noconvert(), "depth"_a, "result"_a.noconvert(),
          nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace tailbreak
