// Sparse penalties: see penalties.hpp for the state, kernels/penalties.py for the contract.

#include "penalties.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <string>

#include <nanobind/stl/vector.h>

#include "rows.hpp"

namespace tailbreak {

static constexpr int32_t EMPTY = -1;
static constexpr double LARGEST = std::numeric_limits<float>::max();
static constexpr double LARGEST_SUM = 1e300;

PenaltyState::PenaltyState(Strengths strengths, int64_t window, int64_t vocab_size)
    : strengths_(strengths), window_(window), vocab_size_(vocab_size) {
    if (window < -1)
        throw std::invalid_argument("window: got " + std::to_string(window) + ", allowed -1 (all), 0 (none) or more");
    if (vocab_size < 1 || vocab_size > std::numeric_limits<int32_t>::max())
        throw std::invalid_argument("vocab_size: got " + std::to_string(vocab_size) + ", allowed 1 to 2147483647");
    rebuild(0);
}

void PenaltyState::require_id(int64_t token_id) const {
    if (token_id < 0 || token_id >= vocab_size_)
        throw std::invalid_argument("token id: got " + std::to_string(token_id) + ", allowed 0 to " +
                                    std::to_string(vocab_size_ - 1));
}

// Where the token stands, or the empty place where it would.
size_t PenaltyState::place_of(int32_t token_id) const {
    const uint64_t hash = static_cast<uint32_t>(token_id) * 0x9E3779B9u;
    size_t place = (hash * table_.size()) >> 32;
    while (table_[place].id != token_id && table_[place].id != EMPTY)
        if (++place == table_.size()) place = 0;
    return place;
}

// Room for that many entries with a quarter more than they need, which keeps probes short.
void PenaltyState::rebuild(size_t n_entries) {
    std::vector<Seen> old(std::max<size_t>(8, n_entries + n_entries / 4 + 1), Seen{EMPTY, 0});
    old.swap(table_);
    n_taken_ = 0;
    for (const Seen &seen : old)
        if (seen.weight) {
            table_[place_of(seen.id)] = seen;
            ++n_taken_;
        }
}

PenaltyState::Seen &PenaltyState::entry_of(int32_t token_id) {
    size_t place = place_of(token_id);
    if (table_[place].id != EMPTY) return table_[place];
    if ((n_taken_ + 1) * 5 > table_.size() * 4) {
        const auto is_alive = [](const Seen &seen) { return seen.weight != 0; };
        const size_t n_alive = std::count_if(table_.begin(), table_.end(), is_alive);
        rebuild(n_alive + n_alive / 4 + 4);
        place = place_of(token_id);
    }
    ++n_taken_;
    table_[place] = Seen{token_id, 0};
    return table_[place];
}

void PenaltyState::see(const std::vector<int64_t> &token_ids) {
    for (const int64_t token_id : token_ids) require_id(token_id);
    if (window_ == 0) return;
    for (const int64_t token_id : token_ids) entry_of(static_cast<int32_t>(token_id)).weight |= 1;
}

void PenaltyState::accept(int64_t token_id) {
    require_id(token_id);
    history_.push_back(static_cast<int32_t>(token_id));
    if (window_ == 0) return;
    entry_of(history_.back()).weight += 2;
    if (window_ > 0 && n_generated() > window_) entry_of(history_[n_generated() - 1 - window_]).weight -= 2;
}

void PenaltyState::rollback(int64_t n_tokens) {
    if (n_tokens < 0 || n_tokens > n_generated())
        throw std::invalid_argument("n_tokens: got " + std::to_string(n_tokens) + ", allowed 0 to " +
                                    std::to_string(n_generated()) + ", which were accepted");
    for (; n_tokens > 0; --n_tokens) {
        const int32_t token_id = history_.back();
        history_.pop_back();
        if (window_ == 0) continue;
        entry_of(token_id).weight -= 2;
        if (window_ > 0 && n_generated() >= window_) entry_of(history_[n_generated() - window_]).weight += 2;
    }
}

int64_t PenaltyState::count(int64_t token_id) const {
    require_id(token_id);
    return table_[place_of(static_cast<int32_t>(token_id))].weight >> 1;
}

bool PenaltyState::is_seen(int64_t token_id) const {
    require_id(token_id);
    return table_[place_of(static_cast<int32_t>(token_id))].weight != 0;
}

size_t PenaltyState::n_bytes() const {
    return sizeof(*this) + table_.capacity() * sizeof(Seen) + history_.capacity() * sizeof(int32_t);
}

// 1 + decay + decay^2 + ..., count terms, by doubling: no cancellation near decay 1, log2(count)
// rounds, and the same operations as the torch backend's.
static double geometric_sum(double decay, uint32_t count) {
    double sum = 0, power = 1;
    for (int bit = std::bit_width(count) - 1; bit >= 0; --bit) {
        sum = sum * (1 + power);
        power = power * power;
        if (count >> bit & 1) {
            sum = sum * decay + 1;
            power = power * decay;
        }
    }
    return std::min(sum, LARGEST_SUM);
}

// Seen tokens of a stretch of the table, as columns: what is done to them then vectorises.
struct Batch {
    static constexpr size_t SIZE = 128;
    size_t n = 0;
    int32_t ids[SIZE + 1];  // one more: a place that does not count is written as well
    uint32_t counts[SIZE + 1];
    float logits[SIZE];
    float amounts[SIZE];

    // The table's gaps cannot be predicted, so they cost no branch.
    void take(int32_t id, uint32_t weight, uint32_t least_weight) {
        ids[n] = id;
        counts[n] = weight >> 1;
        n += weight >= least_weight;
    }

    void amount_to(float frequency, float decay) {
        if (decay == 1)
            for (size_t i = 0; i < n; ++i) amounts[i] = frequency * static_cast<float>(counts[i]);
        else
            for (size_t i = 0; i < n; ++i) {
                const double amount = frequency * geometric_sum(decay, counts[i]);
                amounts[i] = static_cast<float>(std::clamp(amount, -LARGEST, LARGEST));
            }
    }

    void penalise(const Strengths &strengths) {
        for (size_t i = 0; i < n; ++i) {
            const float x = logits[i], divided = x / strengths.repetition, scaled = x * strengths.repetition;
            const float repeated = x > 0 ? divided : scaled, reduced = repeated - amounts[i] - strengths.presence;
            logits[i] = counts[i] ? reduced : repeated;
        }
    }
};

void PenaltyState::penalise(float *row) const {
    const uint32_t least_weight = strengths_.repetition != 1 ? 1 : 2;  // additive penalties skip the prompt
    Batch batch;
    for (size_t begin = 0; begin < table_.size(); begin += Batch::SIZE) {
        const size_t end = std::min(begin + Batch::SIZE, table_.size());
        batch.n = 0;
        for (size_t place = begin; place < end; ++place) {
            __builtin_prefetch(row + std::max(table_[place].id, 0), 1);
            batch.take(table_[place].id, table_[place].weight, least_weight);
        }
        for (size_t i = 0; i < batch.n; ++i) batch.logits[i] = row[batch.ids[i]];
        batch.amount_to(strengths_.frequency, strengths_.decay);
        batch.penalise(strengths_);
        for (size_t i = 0; i < batch.n; ++i) row[batch.ids[i]] = batch.logits[i];
    }
}

// The lock stays held: a state may not change meanwhile, and the work is bounded by what was seen.
static void penalise_rows(const nb::ndarray<> &logits, const nb::list &states) {
    const FloatRows rows = require_float_rows(logits, "logits");
    const auto checked = require_one_per_row<PenaltyState>(states, rows, "states");
    for (int64_t index = 0; index < rows.n_rows; ++index)
        if (checked[index]) checked[index]->penalise(rows.row(index));
}

void bind_penalties(nb::module_ &m) {
    nb::class_<PenaltyState>(m, "PenaltyState")
        .def(
            "__init__",
            [](PenaltyState *self, const std::vector<int64_t> &prompt_ids, int64_t vocab_size, float repetition,
               float frequency, float presence, float decay, int64_t window) {
                new (self) PenaltyState({repetition, frequency, presence, decay}, window, vocab_size);
                self->see(prompt_ids);
            },
            nb::arg("prompt_ids"), nb::kw_only(), nb::arg("vocab_size"), nb::arg("repetition"), nb::arg("frequency"),
            nb::arg("presence"), nb::arg("decay"), nb::arg("window"))
        .def("see", &PenaltyState::see, nb::arg("token_ids"))
        .def("accept", &PenaltyState::accept, nb::arg("token_id"))
        .def("rollback", &PenaltyState::rollback, nb::arg("n_tokens"))
        .def("count", &PenaltyState::count, nb::arg("token_id"))
        .def("is_seen", &PenaltyState::is_seen, nb::arg("token_id"))
        .def_prop_ro("n_generated", &PenaltyState::n_generated)
        .def_prop_ro("n_bytes", &PenaltyState::n_bytes);
    m.def("penalise", &penalise_rows, nb::arg("logits"), nb::arg("states"));
}

}  // namespace tailbreak
