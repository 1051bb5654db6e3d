// Few threads of our own for work that falls into independent items.
//
// They sleep between calls and never spin: a spinning team loses whole scheduler slices where other
// work shares the cores. Work that is short stays on the calling thread; who calls judges that.

#pragma once

#include <cstdint>
#include <functional>

namespace tailbreak {

// Below this much work in one call, waking a thread costs more than it brings.
constexpr double kWorthThreads = 300e3;  // nanoseconds

// Runs item(0) ... item(n_items - 1), in any order, on at most `n_threads` threads, the caller's
// among them. The items must not throw. Calls from several threads wait for each other.
void run_parallel(int64_t n_items, int64_t n_threads, const std::function<void(int64_t)> &item);

}  // namespace tailbreak
