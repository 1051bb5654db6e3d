// What the filters of one row leave: top-k, min-p, top-p, typical-p, depth clip, in this order.
//
// Contract: kernels/sampling.py. Every filter but typical-p keeps a prefix of the order (larger
// logit first, lower id first among equals). A prefix is held as its last member; where few tokens
// are left, or where typical-p took some out of the middle, the tokens themselves are listed.

#pragma once

#include <vector>

#include "row.hpp"

namespace tailbreak {

// One row's wishes, as it lies in memory: the record SETTINGS of kernels/sampling.py.
struct Setting {
    double temperature, min_p, top_p, typical_p, depth;
    int64_t top_k, seed, position;

    bool is_greedy() const { return temperature < 1e-5 || top_k == 1; }
};
static_assert(sizeof(Setting) == 64);

// All tokens up to the last one: logits above `cut`, and those equal to it with an id up to `last`.
struct Prefix {
    float cut = -FLT_MAX;
    int64_t last = INT64_MAX;

    bool holds(float logit, int64_t id) const { return logit > cut || (logit == cut && id <= last); }
};

// A token in a list; `key` rises where the order falls, so that sorting by it is the order.
struct Token {
    uint64_t key;
    double weight;

    Token(float logit, int64_t id) : weight(0) {
        uint32_t word;
        const float positive_zero = logit + 0.0f;  // the two zeros are equal
        std::memcpy(&word, &positive_zero, sizeof word);
        word = word & 0x80000000u ? word : ~word & 0x7fffffffu;
        key = static_cast<uint64_t>(word) << 32 | static_cast<uint32_t>(id);
    }
    int64_t id() const { return static_cast<int64_t>(key & 0xffffffffu); }
    float logit() const {
        uint32_t word = static_cast<uint32_t>(key >> 32);
        word = word & 0x80000000u ? word : ~word & 0x7fffffffu;
        float value;
        std::memcpy(&value, &word, sizeof value);
        return value;
    }
};

// Room that a thread keeps between rows.
struct Scratch {
    std::vector<float> peaks, sorted, widened;
    std::vector<double> bins;
    std::vector<Token> tokens, crossing;
};

struct Kept {
    bool is_list = false;
    Prefix prefix;                // where it is no list
    std::vector<Token> *tokens;   // with their weights, where it is a list; in no order
};

// Lists the n largest finite logits of the row in scratch.tokens, in order.
void list_top(const Row &row, int64_t n, Scratch &scratch);

// For a row with a finite largest logit that is not greedy.
Kept find_kept(const Row &row, const Setting &setting, Scratch &scratch);

}  // namespace tailbreak
