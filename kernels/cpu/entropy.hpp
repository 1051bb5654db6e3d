// Entropy, largest probability and varentropy of a row, in double.

#pragma once

#include "row.hpp"

namespace tailbreak {

struct Entropy {
    double entropy, top_mass, varentropy;
    double total;  // sum of exp(height) at temperature 1, for who needs it next
};

// Of softmax(logits); all 0 where no logit is finite. The first +inf has the whole mass.
Entropy measure_entropy(const Row &row);

}  // namespace tailbreak
