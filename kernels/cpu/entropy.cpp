#include "entropy.hpp"

#include <algorithm>
#include <cmath>

#include "logits.hpp"

namespace tailbreak {

Entropy measure_entropy(const Row &row) {
    const double largest = row.largest;
    if (std::isinf(largest)) return {0, largest > 0 ? 1.0 : 0.0, 0, 0};
    F64 totals{}, heights{}, squares{};
    const auto add = [&](const float *logits) {
        F64 height = widen(logits) - largest;
        height = height >= -708.0 ? height : splat64(-708.0);  // what weighs nothing, NaN as well
        const F64 weight = exp_negative(height);
        totals += weight;
        heights += weight * height;
        squares += weight * height * height;
    };
    int64_t at = 0;
    for (; at + 8 <= row.n; at += 8) add(row.logits + at);
    float padded[8];
    std::fill(padded, padded + 8, -__builtin_inff());
    std::copy(row.logits + at, row.logits + row.n, padded);
    add(padded);
    const double total = sum(totals), mean = sum(heights) / total;
    return {std::log(total) - mean, 1 / total, std::max(0.0, sum(squares) / total - mean * mean), total};
}

namespace {

constexpr double kCost = 0.5;

void measure_entropy_rows(const Logits &array,
                          const nb::ndarray<double, nb::shape<3, -1>, nb::c_contig, nb::device::cpu> &result,
                          int64_t n_threads) {
    const LogitRows rows = require_logits(array);
    if (static_cast<int64_t>(result.shape(1)) != rows.n_rows)
        throw nb::value_error("result: allowed (3, n_seqs), one column for each row of logits");
    double *out = result.data();
    nb::gil_scoped_release released;
    rows.each(kCost, n_threads, [&](int64_t index, Scratch &scratch) {
        const Row row = survey(rows.read(index, scratch), rows.n_tokens, 1, scratch.peaks);
        const Entropy measured = measure_entropy(row);
        out[index] = measured.entropy;
        out[rows.n_rows + index] = measured.top_mass;
        out[2 * rows.n_rows + index] = measured.varentropy;
    });
}

}  // namespace

void bind_entropy(nb::module_ &m) {
    m.def("measure_entropy", &measure_entropy_rows, nb::arg("logits").noconvert(), nb::arg("result").noconvert(),
          nb::arg("n_threads"));
}

}  // namespace tailbreak
