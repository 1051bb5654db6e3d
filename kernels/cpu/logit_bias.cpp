// A request's bias on single tokens: (id, value) pairs, -inf for a ban. Contract in
// kernels/logit_bias.py.

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/vector.h>

#include "rows.hpp"

namespace tailbreak {

class LogitBias {
public:
    LogitBias(const std::vector<int64_t> &token_ids, const std::vector<float> &values, int64_t vocab_size)
        : vocab_size_(vocab_size) {
        if (token_ids.size() != values.size()) throw std::invalid_argument("bias: ids and values differ in number");
        for (size_t i = 0; i < token_ids.size(); ++i) {
            if (token_ids[i] < 0 || token_ids[i] >= vocab_size)
                throw std::invalid_argument("bias: got token id " + std::to_string(token_ids[i]) + ", allowed 0 to " +
                                            std::to_string(vocab_size - 1));
            pairs_.emplace_back(token_ids[i], values[i]);
        }
    }

    void add(float *row) const {
        for (const auto &[token_id, value] : pairs_) row[token_id] += value;
    }

    int64_t vocab_size() const { return vocab_size_; }

private:
    int64_t vocab_size_;
    std::vector<std::pair<int64_t, float>> pairs_;
};

static void add_bias(const nb::ndarray<> &logits, const nb::list &biases) {
    const FloatRows rows = require_float_rows(logits, "logits");
    const auto checked = require_one_per_row<LogitBias>(biases, rows, "biases");
    for (int64_t index = 0; index < rows.n_rows; ++index)
        if (checked[index]) checked[index]->add(rows.row(index));
}

void bind_logit_bias(nb::module_ &m) {
    nb::class_<LogitBias>(m, "LogitBias")
        .def(nb::init<const std::vector<int64_t> &, const std::vector<float> &, int64_t>(), nb::arg("token_ids"),
             nb::arg("values"), nb::kw_only(), nb::arg("vocab_size"));
    m.def("add_bias", &add_bias, nb::arg("logits"), nb::arg("biases"));
}

}  // namespace tailbreak
