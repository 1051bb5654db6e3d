// Divergences of two sets of logits, row by row, in double throughout.
//
// Contract: kernels/divergence.py. A row is swept three times (largest logit, weights and their sum,
// terms); the weights are kept, so that each logit costs one exponential.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "module.hpp"

namespace tailbreak {
namespace {

constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr double UNDEFINED = std::numeric_limits<double>::quiet_NaN();

// softmax of one row as weights w_i = exp(x_i - largest) and ln p_i = x_i - shift.
struct Softmax {
    std::vector<double> weights;
    double total = 0;
    double shift = 0;

    explicit Softmax(size_t n_tokens) : weights(n_tokens) {}

    // False where the row is no distribution: NaN, +inf, or nothing finite in it.
    template <typename Logit>
    bool read(const Logit *logits) {
        double largest = -INFINITE;
        bool has_nan = false;
        for (size_t i = 0; i < weights.size(); ++i) {
            const double logit = logits[i];
            has_nan |= std::isnan(logit);
            largest = std::max(largest, logit);
        }
        if (has_nan || std::isinf(largest)) return false;
        total = 0;
        for (size_t i = 0; i < weights.size(); ++i) {
            weights[i] = std::exp(static_cast<double>(logits[i]) - largest);
            total += weights[i];
        }
        shift = largest + std::log(total);
        return true;
    }
};

double term(double p, double log_p, double log_q) { return p == 0 ? 0 : p * (log_p - log_q); }

struct Divergences {
    double kl = 0, reverse_kl = 0, js = 0, variation = 0;
};

template <typename Logit>
Divergences compare(const Logit *first, const Logit *second, Softmax &one, Softmax &two) {
    if (!one.read(first) || !two.read(second)) return {UNDEFINED, UNDEFINED, UNDEFINED, UNDEFINED};
    Divergences sum;
    for (size_t i = 0; i < one.weights.size(); ++i) {
        const double p = one.weights[i] / one.total, q = two.weights[i] / two.total;
        if (p == 0 && q == 0) continue;
        const double log_p = first[i] - one.shift, log_q = second[i] - two.shift;
        const double log_middle = std::log(p + q) - std::numbers::ln2;
        sum.kl += term(p, log_p, log_q);
        sum.reverse_kl += term(q, log_q, log_p);
        sum.js += (term(p, log_p, log_middle) + term(q, log_q, log_middle)) / 2;
        sum.variation += std::abs(p - q) / 2;
    }
    return {std::max(sum.kl, 0.0), std::max(sum.reverse_kl, 0.0), std::max(sum.js, 0.0), sum.variation};
}

template <typename Logit>
using Logits = nb::ndarray<const Logit, nb::ndim<2>, nb::device::cpu>;
using Result = nb::ndarray<double, nb::shape<4, -1>, nb::c_contig, nb::device::cpu>;

template <typename Logit>
void measure(Logits<Logit> first, Logits<Logit> second, Result result) {
    const size_t n_rows = first.shape(0), n_tokens = first.shape(1);
    if (second.shape(0) != n_rows || second.shape(1) != n_tokens || result.shape(1) != n_rows)
        throw nb::value_error("divergence: the shapes of first, second and result do not go together");
    if (n_tokens == 0) throw nb::value_error("divergence: got no tokens, allowed at least one");
    if (n_tokens > 1 && (first.stride(1) != 1 || second.stride(1) != 1))
        throw nb::value_error("divergence: got tokens that are apart, allowed stride 1 within a row");
    nb::gil_scoped_release released;
    Softmax one(n_tokens), two(n_tokens);
    for (size_t row = 0; row < n_rows; ++row) {
        const auto found = compare(first.data() + static_cast<int64_t>(row) * first.stride(0),
                                   second.data() + static_cast<int64_t>(row) * second.stride(0), one, two);
        const double values[] = {found.kl, found.reverse_kl, found.js, found.variation};
        for (size_t kind = 0; kind < 4; ++kind) result.data()[kind * n_rows + row] = values[kind];
    }
}

}  // namespace

void bind_divergence(nb::module_ &m) {
    const auto first = nb::arg("first").noconvert(), second = nb::arg("second").noconvert();
    const auto result = nb::arg("result").noconvert();
    m.def("measure_divergence", &measure<float>, first, second, result);
    m.def("measure_divergence", &measure<double>, first, second, result);
}

}  // namespace tailbreak
