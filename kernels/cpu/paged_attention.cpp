// Decode attention over paged keys and values: one query token per sequence, softmax in one pass.
//
// Tokens are taken in tiles of 16: keys of a tile against all query heads that share them, 16 scores
// as one vector, then the values. Formats differ only in how a tile's rows come to be float32.

#include <cmath>
#include <type_traits>
#include <vector>

#include "arrays.hpp"
#include "kv_record.hpp"
#include "threads.hpp"
#include "wide.hpp"

using namespace nb::literals;

namespace tailbreak {
namespace {

constexpr int kMostTiles = 8;    // head_dim up to 128
constexpr int kMostQueries = 4;  // of a group, in one go

// A tile's keys and values of one head as rows of float32.
struct Rows {
    const float *keys[kTile], *values[kTile];
};

// Room for a tile that does not lie ready.
struct Unpacked {
    float keys[kTile][kMostTiles * kTile], values[kTile][kMostTiles * kTile];

    void show(int n, Rows &rows) const {
        for (int t = 0; t < n; ++t) rows.keys[t] = keys[t], rows.values[t] = values[t];
    }
};

// float32 lies ready in the arena.
struct Float32Kv {
    const float *data;
    int64_t n_heads, head_dim;

    void fetch(const int64_t *slots, int n, int64_t head, Unpacked &, Rows &rows) const {
        for (int t = 0; t < n; ++t) {
            rows.keys[t] = data + (slots[t] * 2 * n_heads + head) * head_dim;
            rows.values[t] = rows.keys[t] + n_heads * head_dim;
        }
    }
};

struct Bfloat16Kv {
    const uint16_t *data;
    int64_t n_heads, head_dim;

    void widen(const uint16_t *source, float *target) const {
        for (int64_t i = 0; i < head_dim; ++i) target[i] = bits_float(uint32_t(source[i]) << 16);
    }

    void fetch(const int64_t *slots, int n, int64_t head, Unpacked &tile, Rows &rows) const {
        for (int t = 0; t < n; ++t) {
            const uint16_t *key = data + (slots[t] * 2 * n_heads + head) * head_dim;
            widen(key, tile.keys[t]);
            widen(key + n_heads * head_dim, tile.values[t]);
        }
        tile.show(n, rows);
    }
};

struct PackedKv {
    const uint8_t *data;
    int64_t n_heads;
    KvRecord record;

    void fetch(const int64_t *slots, int n, int64_t head, Unpacked &tile, Rows &rows) const {
        for (int t = 0; t < n; ++t) {
            const uint8_t *source = data + (slots[t] * n_heads + head) * record.size();
            record.unpack_key(source, tile.keys[t]);
            record.unpack_value(source, tile.values[t]);
        }
        tile.show(n, rows);
    }
};

// Where a sequence's tokens lie: token t in slot first_slots[t / block_size] + t % block_size.
struct Context {
    const int64_t *first_slots;
    int64_t length, block_size;

    void slots_of(int64_t begin, int n, int64_t *slots) const {
        for (int t = 0; t < n; ++t)
            slots[t] = first_slots[(begin + t) / block_size] + (begin + t) % block_size;
    }
};

// The products of one query's head with one key's, folded to 4 numbers.
template <int kSize>
inline void multiply(const float *query, const Wide *key, float *four) {
    Wide products[kParts] = {};
    for (int i = 0; i < kSize; i += kTile)
        for (int j = 0; j < kParts; ++j) products[j] += load_wide(query + i + j * kWide) * key[i / kWide + j];
    fold_to_4(products, four);
}

// Adds a tile's values by their weights, small heads in two sums: one waits for every addition.
template <int kSize>
inline void add_values(const float *weights, const Rows &rows, int n, Wide *sums) {
    constexpr int kPieces = kSize / kWide, kSums = kSize <= 64 ? 2 : 1;
    Wide part[kSums][kPieces] = {};
    for (int t = 0; t < n; t += kSums)
        for (int s = 0; s < kSums && t + s < n; ++s)
            for (int i = 0; i < kPieces; ++i) part[s][i] += weights[t + s] * load_wide(rows.values[t + s] + i * kWide);
    for (int s = 0; s < kSums; ++s)
        for (int i = 0; i < kPieces; ++i) sums[i] += part[s][i];
}

// Attends `n_queries` heads of size kSize that share a key head. queries and results: rows.
template <int kSize, class Kv>
void attend(const float *queries, int n_queries, const Kv &kv, int64_t head, const Context &context, float scale,
            float *results) {
    constexpr int kPieces = kSize / kWide;
    Wide sums[kMostQueries][kPieces] = {};
    float largest[kMostQueries], weight[kMostQueries] = {};
    for (int q = 0; q < n_queries; ++q) largest[q] = -INFINITY;
    Rows rows;
    Unpacked tile;
    int64_t slots[kTile];
    float folded[kMostQueries][kTile][4] = {};
    for (int64_t begin = 0; begin < context.length; begin += kTile) {
        const int n = int(context.length - begin < kTile ? context.length - begin : kTile);
        context.slots_of(begin, n, slots);
        kv.fetch(slots, n, head, tile, rows);
        for (int t = 0; t < n; ++t) {
            Wide key[kPieces];
            for (int i = 0; i < kPieces; ++i) key[i] = load_wide(rows.keys[t] + i * kWide);
            for (int q = 0; q < n_queries; ++q) multiply<kSize>(queries + q * kSize, key, folded[q][t]);
        }
        float weights[kMostQueries][kTile];
        for (int q = 0; q < n_queries; ++q) {
            float scores[kTile];
            for (int t = 0; t < kTile; ++t) {
                const float *four = folded[q][t];
                scores[t] = ((four[0] + four[2]) + (four[1] + four[3])) * scale;
            }
            for (int t = n; t < kTile; ++t) scores[t] = -INFINITY;
            const float top = largest_of_tile(scores);
            if (top > largest[q]) {
                const float fade = exp_of_negative(largest[q] - top);
                largest[q] = top;
                weight[q] *= fade;
                for (int i = 0; i < kPieces; ++i) sums[q][i] *= fade;
            }
            for (int t = 0; t < kTile; ++t) weights[q][t] = exp_of_negative(scores[t] - largest[q]);
            weight[q] += sum_tile(weights[q]);
        }
        for (int q = 0; q < n_queries; ++q) add_values<kSize>(weights[q], rows, n, sums[q]);
    }
    for (int q = 0; q < n_queries; ++q)
        for (int i = 0; i < kPieces; ++i) store_wide(results + q * kSize + i * kWide, sums[q][i] / weight[q]);
}

using ConstFloats = Array<const float, 3>;
using Indices = Array<const int64_t, 1>;

struct Shapes {
    int64_t n_seqs, n_heads, n_kv_heads, head_dim, n_slots;
};

// Refuses every index that would leave the arena, before anything is read.
void require_contexts(const Shapes &shapes, Indices first_slots, Indices lengths, int64_t block_size) {
    require(block_size >= 1, "paged_attention: got block_size " + text(block_size) + ", allowed 1 and more");
    require(int64_t(lengths.size()) == shapes.n_seqs,
            "paged_attention: got " + text(lengths.size()) + " lengths for " + text(shapes.n_seqs) + " queries");
    int64_t n_blocks = 0;
    for (int64_t s = 0; s < shapes.n_seqs; ++s) {
        const int64_t length = lengths.data()[s];
        require(length >= 1 && length <= shapes.n_slots, "paged_attention: got length " + text(length) + ", allowed 1 to " +
                                                              text(shapes.n_slots));
        const int64_t end = n_blocks + (length + block_size - 1) / block_size;
        require(end <= int64_t(first_slots.size()), "paged_attention: got " + text(first_slots.size()) +
                                                        " blocks, fewer than the lengths take");
        for (int64_t b = n_blocks; b < end; ++b) {
            const int64_t in_block = b + 1 < end ? block_size : length - (end - 1 - n_blocks) * block_size;
            const int64_t slot = first_slots.data()[b];
            require(slot >= 0 && slot + in_block <= shapes.n_slots,
                    "paged_attention: got a block at slot " + text(slot) + " with " + text(in_block) +
                        " tokens, allowed within 0 to " + text(shapes.n_slots - 1));
        }
        n_blocks = end;
    }
    require(n_blocks == int64_t(first_slots.size()),
            "paged_attention: got " + text(first_slots.size()) + " blocks, allowed " + text(n_blocks) + " for these lengths");
}

// About what one token of one head takes, in nanoseconds for each element of head_dim.
constexpr double kPerElement = 0.7;

template <int kSize, class Kv>
void attend_all(const Shapes &shapes, ConstFloats queries, const Kv &kv, Indices first_slots, Indices lengths,
                int64_t block_size, float scale, int64_t n_threads, float *results) {
    const int64_t group = shapes.n_heads / shapes.n_kv_heads;
    std::vector<int64_t> first(shapes.n_seqs);
    double work = 0.0;
    for (int64_t s = 0, n_blocks = 0; s < shapes.n_seqs; ++s) {
        first[s] = n_blocks;
        n_blocks += (lengths.data()[s] + block_size - 1) / block_size;
        work += double(lengths.data()[s]) * double(shapes.n_kv_heads * kSize) * kPerElement;
    }
    run_parallel(shapes.n_seqs * shapes.n_kv_heads, work < kWorthThreads ? 1 : n_threads, [&](int64_t item) {
        const int64_t s = item / shapes.n_kv_heads, head = item % shapes.n_kv_heads;
        for (int64_t q = 0; q < group; q += kMostQueries) {
            const int64_t row = (s * shapes.n_heads + head * group + q) * kSize;
            const int n = int(group - q < kMostQueries ? group - q : kMostQueries);
            attend<kSize>(queries.data() + row, n, kv, head,
                          Context{first_slots.data() + first[s], lengths.data()[s], block_size}, scale, results + row);
        }
    });
}

template <class Kv>
void dispatch(const Shapes &shapes, ConstFloats queries, const Kv &kv, Indices first_slots, Indices lengths,
              int64_t block_size, float scale, int64_t n_threads, Array<float, 3> results) {
    require(shapes.head_dim % kTile == 0 && shapes.head_dim >= kTile && shapes.head_dim <= kMostTiles * kTile,
            "paged_attention: got head_dim " + text(shapes.head_dim) + ", allowed multiples of 16 up to 128");
    require(shapes.n_kv_heads >= 1 && shapes.n_heads % shapes.n_kv_heads == 0,
            "paged_attention: got " + text(shapes.n_heads) + " query heads for " + text(shapes.n_kv_heads) + " key heads");
    require(results.shape(0) == queries.shape(0) && results.shape(1) == queries.shape(1) &&
                results.shape(2) == queries.shape(2),
            "paged_attention: got results of another shape than the queries");
    require_contexts(shapes, first_slots, lengths, block_size);
    auto run = [&](auto size) {
        attend_all<size()>(shapes, queries, kv, first_slots, lengths, block_size, scale, n_threads,
                           results.data());
    };
    switch (shapes.head_dim) {
        case 16: return run(std::integral_constant<int, 16>{});
        case 32: return run(std::integral_constant<int, 32>{});
        case 48: return run(std::integral_constant<int, 48>{});
        case 64: return run(std::integral_constant<int, 64>{});
        case 80: return run(std::integral_constant<int, 80>{});
        case 96: return run(std::integral_constant<int, 96>{});
        case 112: return run(std::integral_constant<int, 112>{});
        default: return run(std::integral_constant<int, 128>{});
    }
}

// kv (n_slots, 2, n_kv_heads, head_dim), float32 or the bits of bfloat16
template <class Element, class Kv>
void attend_plain(ConstFloats queries, Array<const Element, 4> kv, Indices first_slots, Indices lengths,
                  int64_t block_size, float scale, int64_t n_threads, Array<float, 3> results) {
    const Shapes shapes{int64_t(queries.shape(0)), int64_t(queries.shape(1)), int64_t(kv.shape(2)),
                        int64_t(queries.shape(2)), int64_t(kv.shape(0))};
    require(kv.shape(1) == 2 && kv.shape(3) == queries.shape(2),
            "paged_attention: got keys and values of another head_dim than the queries");
    const Kv source{kv.data(), shapes.n_kv_heads, shapes.head_dim};
    dispatch(shapes, queries, source, first_slots, lengths, block_size, scale, n_threads, results);
}

// records (n_slots, n_kv_heads, record size)
void attend_packed(ConstFloats queries, Array<const uint8_t, 3> records, Indices first_slots, Indices lengths,
                   int64_t block_size, float scale, int64_t n_threads, Array<float, 3> results) {
    const Shapes shapes{int64_t(queries.shape(0)), int64_t(queries.shape(1)), int64_t(records.shape(1)),
                        int64_t(queries.shape(2)), int64_t(records.shape(0))};
    const KvRecord record{shapes.head_dim};
    require(int64_t(records.shape(2)) == record.size(),
            "paged_attention: got records of " + text(records.shape(2)) + " bytes, allowed " + text(record.size()) +
                " for head_dim " + text(shapes.head_dim));
    const PackedKv source{records.data(), shapes.n_kv_heads, record};
    dispatch(shapes, queries, source, first_slots, lengths, block_size, scale, n_threads, results);
}

}  // namespace

void bind_paged_attention(nb::module_ &m) {
    using Released = nb::call_guard<nb::gil_scoped_release>;
    const auto bind = [&](auto function) {
        m.def("paged_attention", function, "queries"_a.noconvert(), "kv"_a.noconvert(), "first_slots"_a.noconvert(),
              "lengths"_a.noconvert(), "block_size"_a, "scale"_a, "n_threads"_a, "results"_a.noconvert(), Released());
    };
    bind(&attend_plain<float, Float32Kv>);
    bind(&attend_plain<uint16_t, Bfloat16Kv>);
    bind(&attend_packed);
}

}  // namespace tailbreak
