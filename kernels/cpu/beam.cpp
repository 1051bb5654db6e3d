// The beam step: the best `width` of beams x vocabulary, in one sweep.
//
// Contract: kernels/beam.py. A heap holds the best so far, its worst on top; blocks in which nothing
// beats the worst, nearly all of them, cost one comparison a lane.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "module.hpp"

namespace tailbreak {
namespace {

constexpr int64_t kBlock = 64;

struct Choice {
    float total;
    int64_t flat;
};

// Whether a comes before b: the larger total, the lower index of equal ones.
bool is_better(const Choice &a, const Choice &b) {
    return a.total > b.total || (a.total == b.total && a.flat < b.flat);
}

class Best {
   public:
    explicit Best(size_t width) : width_(width) { heap_.reserve(width); }

    // Below or at this a later index has no chance.
    bool is_full() const { return heap_.size() == width_; }
    float bound() const { return heap_.front().total; }

    void offer(Choice choice) {
        if (!is_full()) {
            heap_.push_back(choice);
            std::push_heap(heap_.begin(), heap_.end(), is_better);
        } else if (is_better(choice, heap_.front())) {
            std::pop_heap(heap_.begin(), heap_.end(), is_better);
            heap_.back() = choice;
            std::push_heap(heap_.begin(), heap_.end(), is_better);
        }
    }

    const std::vector<Choice> &sorted() {
        std::sort(heap_.begin(), heap_.end(), is_better);
        return heap_;
    }

   private:
    size_t width_;
    std::vector<Choice> heap_;
};

void offer_block(Best &best, const float *logprobs, float score, int64_t n, int64_t flat) {
    for (int64_t i = 0; i < n; ++i) {
        const float total = score + logprobs[i];
        best.offer({std::isnan(total) ? -std::numeric_limits<float>::infinity() : total, flat + i});
    }
}

void sweep(Best &best, const float *logprobs, float score, int64_t n, int64_t flat) {
    int64_t i = 0;
    for (; i + kBlock <= n; i += kBlock) {
        if (best.is_full()) {
            const float bound = best.bound();
            int is_any = 0;
            for (int64_t lane = 0; lane < kBlock; ++lane) is_any |= score + logprobs[i + lane] > bound;
            if (!is_any) continue;
        }
        offer_block(best, logprobs + i, score, kBlock, flat + i);
    }
    offer_block(best, logprobs + i, score, n - i, flat + i);
}

using Scores = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Logprobs = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Flat = nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Totals = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void step_beams(Scores scores, Logprobs logprobs, Flat flat, Totals totals) {
    const size_t n_batch = logprobs.shape(0), n_beams = logprobs.shape(1), vocab_size = logprobs.shape(2),
                 width = flat.shape(1);
    if (scores.shape(0) != n_batch || scores.shape(1) != n_beams || flat.shape(0) != n_batch ||
        totals.shape(0) != n_batch || totals.shape(1) != width)
        throw nb::value_error("beam: the shapes of scores, logprobs, flat and totals do not go together");
    if (width < 1 || width > n_beams * vocab_size)
        throw nb::value_error("beam: got a width outside 1 to n_beams x vocab_size");
    nb::gil_scoped_release released;
    for (size_t row = 0; row < n_batch; ++row) {
        Best best(width);
        for (size_t beam = 0; beam < n_beams; ++beam)
            sweep(best, logprobs.data() + (row * n_beams + beam) * vocab_size, scores.data()[row * n_beams + beam],
                  static_cast<int64_t>(vocab_size), static_cast<int64_t>(beam * vocab_size));
        size_t place = row * width;
        for (const Choice &choice : best.sorted()) {
            flat.data()[place] = choice.flat;
            totals.data()[place++] = choice.total;
        }
    }
}

}  // namespace

void bind_beam(nb::module_ &m) {
    m.def("step_beams", &step_beams, nb::arg("scores").noconvert(), nb::arg("logprobs").noconvert(),
          nb::arg("flat").noconvert(), nb::arg("totals").noconvert());
}

}  // namespace tailbreak
