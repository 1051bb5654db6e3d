// What one request's penalties remember, and how they change a row of logits.
//
// Only tokens that were seen stand in the table, so neither memory nor a step's cost depends on the
// vocabulary. Accepting a token costs the same however long the history is.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tailbreak {

struct Strengths {
    float repetition;
    float frequency;
    float presence;
    float decay;
};

class PenaltyState {
public:
    // window: how many generated tokens count; -1 all of them, 0 none, and then the prompt neither.
    PenaltyState(Strengths strengths, int64_t window, int64_t vocab_size);

    void see(const std::vector<int64_t> &token_ids);  // prompt or forced: only repetition minds them
    void accept(int64_t token_id);                    // generated
    void rollback(int64_t n_tokens);                  // takes the last generated ones back
    void penalise(float *row) const;

    int64_t count(int64_t token_id) const;
    bool is_seen(int64_t token_id) const;
    int64_t n_generated() const { return static_cast<int64_t>(history_.size()); }
    int64_t vocab_size() const { return vocab_size_; }
    size_t n_bytes() const;

private:
    // weight = 2 * count + (stands in the prompt). A token of weight 0 left the window; it stays
    // until the table is built anew, so that those behind it are still found.
    struct Seen {
        int32_t id;
        uint32_t weight;
    };

    void require_id(int64_t token_id) const;
    size_t place_of(int32_t token_id) const;
    Seen &entry_of(int32_t token_id);
    void rebuild(size_t n_entries);

    Strengths strengths_;
    int64_t window_;
    int64_t vocab_size_;
    std::vector<Seen> table_;       // open addressing, linear probing
    size_t n_taken_ = 0;            // places of the table that hold an id
    std::vector<int32_t> history_;  // generated ids in order, for the window and for rollback
};

}  // namespace tailbreak
