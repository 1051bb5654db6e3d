// Logits as the kernels see them: rows of float32 with a stride, checked once at the border.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "module.hpp"

namespace tailbreak {

// `row(i)` points at `n_columns` floats that lie side by side; rows may be further apart than that
// (a slice of a padded vocabulary), never closer.
struct FloatRows {
    float *data;
    int64_t n_rows;
    int64_t n_columns;
    int64_t stride;

    float *row(int64_t index) const { return data + index * stride; }
};

inline FloatRows require_float_rows(const nb::ndarray<> &array, const char *name) {
    auto refuse = [name](const std::string &problem) {
        throw nb::value_error((std::string(name) + ": " + problem).c_str());
    };
    if (array.device_type() != nb::device::cpu::value) refuse("got data of a device, allowed host memory");
    if (array.dtype() != nb::dtype<float>()) refuse("got another type, allowed float32");
    if (array.ndim() != 2) refuse("got " + std::to_string(array.ndim()) + " axes, allowed 2 (n_seqs, vocab_size)");
    FloatRows rows{static_cast<float *>(array.data()), static_cast<int64_t>(array.shape(0)),
                   static_cast<int64_t>(array.shape(1)), array.stride(0)};
    if (rows.n_columns > 1 && array.stride(1) != 1)
        refuse("got a column stride of " + std::to_string(array.stride(1)) + ", allowed 1: call contiguous() first");
    if (rows.n_rows > 1 && std::llabs(rows.stride) < rows.n_columns)
        refuse("got rows that overlap, allowed rows of their own: call contiguous() first");
    return rows;
}

// One object for each row, or None; all of this build and of the rows' vocabulary.
template <typename T>
std::vector<const T *> require_one_per_row(const nb::list &given, const FloatRows &rows, const char *name) {
    const std::string prefix = std::string(name) + ": got ";
    if (static_cast<int64_t>(given.size()) != rows.n_rows)
        throw nb::value_error((prefix + std::to_string(given.size()) + ", allowed one (or None) for each of the " +
                               std::to_string(rows.n_rows) + " rows")
                                  .c_str());
    std::vector<const T *> checked;
    checked.reserve(given.size());
    for (const nb::handle each : given) {
        T *object = nullptr;
        if (!nb::try_cast(each, object))
            throw nb::value_error((prefix + "one of another backend, allowed native ones and None").c_str());
        if (object && object->vocab_size() != rows.n_columns)
            throw nb::value_error((prefix + "one of vocab_size " + std::to_string(object->vocab_size()) +
                                   ", allowed the logits' " + std::to_string(rows.n_columns))
                                      .c_str());
        checked.push_back(object);
    }
    return checked;
}

}  // namespace tailbreak
