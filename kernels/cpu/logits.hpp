// Logits that are read only, as they come from Python: float32 or bfloat16, checked at the border.

#pragma once

#include <string>

#include "kept.hpp"
#include "module.hpp"
#include "threads.hpp"

namespace tailbreak {

using Logits = nb::ndarray<nb::ro>;

// Rows may lie further apart than they are long (a slice of a padded vocabulary).
struct LogitRows {
    const void *data;
    int64_t n_rows, n_tokens, stride;
    bool is_half;  // bfloat16

    // A row as float32; a bfloat16 row is widened into the thread's room.
    const float *read(int64_t index, Scratch &scratch) const {
        if (!is_half) return static_cast<const float *>(data) + index * stride;
        const uint16_t *source = static_cast<const uint16_t *>(data) + index * stride;
        scratch.widened.resize(static_cast<size_t>(n_tokens));
        float *target = scratch.widened.data();
        int64_t at = 0;
        for (; at + kLanes <= n_tokens; at += kLanes)
            store(target + at, __builtin_convertvector(load<U16>(source + at), U32) << 16);
        for (; at < n_tokens; ++at) {
            const uint32_t word = static_cast<uint32_t>(source[at]) << 16;
            std::memcpy(target + at, &word, sizeof word);
        }
        return target;
    }

    // Calls work(row, scratch) for every row; on several threads where `cost`, in nanoseconds for
    // each logit, makes it worth while.
    template <class Work>
    void each(double cost, int64_t n_threads, Work work) const {
        if (cost * static_cast<double>(n_rows * n_tokens) < kWorthThreads) n_threads = 1;
        run_parallel(n_rows, n_threads, [&](int64_t index) {
            thread_local Scratch scratch;
            work(index, scratch);
        });
    }
};

inline LogitRows require_logits(const Logits &array) {
    auto refuse = [](const std::string &problem) { throw nb::value_error(("logits: " + problem).c_str()); };
    const nb::dlpack::dtype type = array.dtype();
    const nb::dlpack::dtype half{static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1};
    if (array.device_type() != nb::device::cpu::value) refuse("got data of a device, allowed host memory");
    if (type != nb::dtype<float>() && type != half) refuse("got another type, allowed float32 and bfloat16");
    if (array.ndim() != 2)
        refuse("got " + std::to_string(array.ndim()) + " axes, allowed 2 (n_seqs, vocab_size)");
    const auto n_tokens = static_cast<int64_t>(array.shape(1));
    if (n_tokens < 1 || n_tokens > INT32_MAX) refuse("got a vocabulary of " + std::to_string(n_tokens) + ", allowed 1 to 2^31 - 1");
    if (n_tokens > 1 && array.stride(1) != 1)
        refuse("got a column stride of " + std::to_string(array.stride(1)) + ", allowed 1: call contiguous() first");
    return {array.data(), static_cast<int64_t>(array.shape(0)), n_tokens, array.stride(0), type == half};
}

}  // namespace tailbreak
