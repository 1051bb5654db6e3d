#include "threads.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace tailbreak {
namespace {

class Pool {
  public:
    void run(int64_t n_items, int64_t n_threads, const std::function<void(int64_t)> &item) {
        std::lock_guard<std::mutex> one_call(calls_);
        {
            std::lock_guard<std::mutex> guard(state_);
            while (n_workers_ < n_threads - 1) start_worker();
            item_ = &item;
            n_items_ = n_items;
            next_ = 0;
            n_wanted_ = n_open_ = n_threads - 1;
        }
        work_came_.notify_all();
        take_items();
        std::unique_lock<std::mutex> guard(state_);
        n_open_ -= n_wanted_;  // a worker that has not woken yet has nothing left to do
        n_wanted_ = 0;
        all_done_.wait(guard, [this] { return n_open_ == 0; });
    }

  private:
    void start_worker() {
        std::thread([this] { serve(); }).detach();
        ++n_workers_;
    }

    void serve() {
        std::unique_lock<std::mutex> guard(state_);
        while (true) {
            work_came_.wait(guard, [this] { return n_wanted_ > 0; });
            --n_wanted_;
            guard.unlock();
            take_items();
            guard.lock();
            if (--n_open_ == 0) all_done_.notify_one();
        }
    }

    void take_items() {
        for (int64_t index; (index = next_.fetch_add(1)) < n_items_;) (*item_)(index);
    }

    std::mutex calls_, state_;
    std::condition_variable work_came_, all_done_;
    const std::function<void(int64_t)> *item_ = nullptr;
    std::atomic<int64_t> next_{0};
    int64_t n_items_ = 0, n_wanted_ = 0, n_open_ = 0, n_workers_ = 0;
};

// A forked child has none of its parent's threads, and perhaps a lock that nobody will open: it gets
// a pool of its own. Pools are never destroyed, because their threads sleep in them at exit.
Pool &pool() {
    static std::atomic<Pool *> current{nullptr};
    static std::atomic<pid_t> owner{0};
    static std::atomic_flag is_creating = ATOMIC_FLAG_INIT;
    if (owner.load() != getpid()) {
        while (is_creating.test_and_set()) std::this_thread::yield();
        if (owner.load() != getpid()) {
            current = new Pool;
            owner = getpid();
        }
        is_creating.clear();
    }
    return *current;
}

}  // namespace

void run_parallel(int64_t n_items, int64_t n_threads, const std::function<void(int64_t)> &item) {
    n_threads = std::min(n_threads, n_items);
    if (n_threads > 1) return pool().run(n_items, n_threads, item);
    for (int64_t index = 0; index < n_items; ++index) item(index);
}

}  // namespace tailbreak
