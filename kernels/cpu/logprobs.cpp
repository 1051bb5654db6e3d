// Log-probabilities of the chosen and of the likeliest tokens. Contract: kernels/logprobs.py.

#include <algorithm>
#include <cmath>

#include "logits.hpp"

namespace tailbreak {
namespace {

constexpr double kCost = 0.5, kFloor = -9999;

// Logarithm of the sum of exp(x - largest); +inf shares the mass among its likes.
struct LogSoftmax {
    const Row &row;
    double log_total;

    explicit LogSoftmax(const Row &row) : row(row) {
        if (std::isinf(row.largest))
            log_total = std::log(static_cast<double>(std::count(row.logits, row.logits + row.n, row.largest)));
        else
            log_total = std::log(exact_total(row));
    }
    float of(float logit) const {
        if (!(logit > -__builtin_inff())) return kFloor;
        if (std::isinf(row.largest)) return static_cast<float>(std::isinf(logit) ? -log_total : kFloor);
        return static_cast<float>(std::max(row.height(logit) - log_total, kFloor));
    }
};

// The n largest, then what has no probability, lowest ids first.
void tell_top(const LogSoftmax &softmax, int64_t n, Scratch &scratch, int64_t *ids, float *values) {
    const Row &row = softmax.row;
    list_top(row, n, scratch);
    int64_t told = 0;
    for (const Token &token : scratch.tokens) {
        ids[told] = token.id();
        values[told++] = softmax.of(row.logits[token.id()]);
    }
    for (int64_t id = 0; told < n; ++id)
        if (!(row.logits[id] > -__builtin_inff())) {
            ids[told] = id;
            values[told++] = kFloor;
        }
}

void measure_logprobs(const Logits &array,
                      const nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> &token_ids,
                      const nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu> &chosen,
                      const nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> &top_ids,
                      const nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu> &top, int64_t n_threads) {
    const LogitRows rows = require_logits(array);
    const auto n_rows = static_cast<size_t>(rows.n_rows), n_top = top.shape(1);
    if (token_ids.shape(0) != n_rows || chosen.shape(0) != n_rows || top_ids.shape(0) != n_rows ||
        top.shape(0) != n_rows || top_ids.shape(1) != n_top || static_cast<int64_t>(n_top) > rows.n_tokens)
        throw nb::value_error("logprobs: the shapes of logits, token_ids and results do not go together");
    for (size_t row = 0; row < n_rows; ++row)
        if (token_ids.data()[row] < 0 || token_ids.data()[row] >= rows.n_tokens)
            throw nb::value_error(("token_ids: got " + std::to_string(token_ids.data()[row]) + ", allowed 0 to " +
                                   std::to_string(rows.n_tokens - 1))
                                      .c_str());
    const int64_t *token = token_ids.data();
    float *own = chosen.data(), *values = top.data();
    int64_t *ids = top_ids.data();
    nb::gil_scoped_release released;
    rows.each(kCost, n_threads, [&](int64_t index, Scratch &scratch) {
        const Row row = survey(rows.read(index, scratch), rows.n_tokens, 1, scratch.peaks);
        const LogSoftmax softmax(row);
        const auto n = static_cast<int64_t>(n_top);
        own[index] = softmax.of(row.logits[token[index]]);
        tell_top(softmax, n, scratch, ids + index * n, values + index * n);
    });
}

}  // namespace

void bind_logprobs(nb::module_ &m) {
    m.def("measure_logprobs", &measure_logprobs, nb::arg("logits").noconvert(), nb::arg("token_ids").noconvert(),
          nb::arg("chosen").noconvert(), nb::arg("top_ids").noconvert(), nb::arg("top").noconvert(),
          nb::arg("n_threads"));
}

}  // namespace tailbreak
