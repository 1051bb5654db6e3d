// The index of a chain's history: a hash that takes one word at a time, and its 8-byte entries.

#include "arrays.hpp"
#include "noise.hpp"

using namespace nb::literals;

namespace tailbreak {
namespace {

using Words = Array<const int64_t, 1>;

void require_equal(Words one, Words other, Array<int64_t, 1> result) {
    require(one.size() == other.size() && one.size() == result.size(), "history_index: got arrays of different length");
}

void extend_hashes(Words hashes, Words words, Array<int64_t, 1> result) {
    require_equal(hashes, words, result);
    for (size_t i = 0; i < hashes.size(); ++i)
        result.data()[i] = int64_t(mix((uint64_t(hashes.data()[i]) ^ uint64_t(words.data()[i])) + kGamma));
}

void pack_index(Words steps, Words hashes, Array<int64_t, 1> result) {
    require_equal(steps, hashes, result);
    for (size_t i = 0; i < steps.size(); ++i)
        result.data()[i] = int64_t(uint64_t(steps.data()[i]) << 40 | uint64_t(hashes.data()[i]) >> 24);
}

}  // namespace

void bind_history_index(nb::module_ &m) {
    m.def("extend_hashes", &extend_hashes, "hashes"_a.noconvert(), "words"_a.noconvert(), "result"_a.noconvert());
    m.def("pack_index", &pack_index, "steps"_a.noconvert(), "hashes"_a.noconvert(), "result"_a.noconvert());
}

}  // namespace tailbreak
