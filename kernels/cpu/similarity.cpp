// Merging of similar beams: each beam against the likelier ones, likeliest first, until one is close.
//
// Contract: kernels/similarity.py. Products are summed in double, in 16 sums of fixed order.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "module.hpp"

namespace tailbreak {
namespace {

constexpr int64_t kSums = 16;

double dot(const float *a, const float *b, int64_t width) {
    double sums[kSums] = {};
    int64_t i = 0;
    for (; i + kSums <= width; i += kSums)
        for (int64_t lane = 0; lane < kSums; ++lane)
            sums[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
    for (; i < width; ++i) sums[i % kSums] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    for (int64_t half = kSums / 2; half > 0; half /= 2)
        for (int64_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
    return sums[0];
}

void merge_row(const float *embeddings, const float *scores, double threshold, int64_t n_beams, int64_t width,
               int64_t *into) {
    std::vector<int64_t> order(n_beams);
    std::iota(order.begin(), order.end(), 0);
    const auto score = [scores](int64_t beam) {
        return std::isnan(scores[beam]) ? -std::numeric_limits<float>::infinity() : scores[beam];
    };
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score(a) > score(b); });
    std::vector<double> norms(n_beams);
    for (int64_t beam = 0; beam < n_beams; ++beam) {
        const float *own = embeddings + beam * width;
        norms[beam] = std::sqrt(dot(own, own, width));
    }
    for (int64_t place = 0; place < n_beams; ++place) {
        const int64_t beam = order[place];
        into[beam] = beam;
        for (int64_t before = 0; before < place; ++before) {
            const int64_t likelier = order[before];
            // 0 / 0 and inf / inf are NaN, which is above no threshold.
            const double cosine =
                dot(embeddings + likelier * width, embeddings + beam * width, width) / (norms[likelier] * norms[beam]);
            if (cosine > threshold) {
                into[beam] = likelier;
                break;
            }
        }
    }
}

using Embeddings = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Scores = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Into = nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void merge_similar(Embeddings embeddings, Scores scores, double threshold, Into into) {
    const auto n_batch = static_cast<int64_t>(embeddings.shape(0)), n_beams = static_cast<int64_t>(embeddings.shape(1)),
               width = static_cast<int64_t>(embeddings.shape(2));
    for (size_t axis = 0; axis < 2; ++axis)
        if (scores.shape(axis) != embeddings.shape(axis) || into.shape(axis) != embeddings.shape(axis))
            throw nb::value_error("similarity: the shapes of embeddings, scores and into do not go together");
    nb::gil_scoped_release released;
    for (int64_t row = 0; row < n_batch; ++row)
        merge_row(embeddings.data() + row * n_beams * width, scores.data() + row * n_beams, threshold, n_beams, width,
                  into.data() + row * n_beams);
}

}  // namespace

void bind_similarity(nb::module_ &m) {
    m.def("merge_similar", &merge_similar, nb::arg("embeddings").noconvert(), nb::arg("scores").noconvert(),
          nb::arg("threshold"), nb::arg("into").noconvert());
}

}  // namespace tailbreak
