// From rows of logits to one token each: filters (kept.hpp), then the race of what they leave.
//
// Contract: kernels/sampling.py. The race is argmax w_j / E_j with E_j keyed by (seed, position,
// token id), so that a token does not depend on how many others were looked at. Only a token whose
// 1 - u is below w_j / best can win (E >= 1 - u), which is nearly none of them.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include <nanobind/stl/optional.h>

#include "entropy.hpp"
#include "kept.hpp"
#include "logits.hpp"
#include "noise.hpp"
#include "threads.hpp"

namespace tailbreak {
namespace {

constexpr double kCareful = 1 + 1e-9;

struct Race {
    Noise noise;
    double best = 0;
    int64_t winner = -1;

    void enter(int64_t id, double weight) {
        const uint64_t bits = noise.bits_of(id);
        if (Noise::at_least(bits) * best > weight * kCareful) return;
        const double score = weight / Noise::exponential(bits);
        if (score > best || (score == best && id < winner)) {
            best = score;
            winner = id;
        }
    }
};

// All tokens of a tile, 32 hashes at a time; a group without a small enough 1 - u is left at once.
void race_tile(const Row &row, Prefix prefix, int64_t tile, double weight_of_peak, Race &race) {
    constexpr int kGroup = 32;
    const int64_t end = row.end_of(tile);
    for (int64_t at = tile * kTile; at < end; at += kGroup) {
        const double reach = race.best > 0 ? weight_of_peak / race.best * kCareful : 1;
        const uint64_t limit = reach < 1 ? static_cast<uint64_t>(reach * 0x1p53) + 1 : uint64_t{1} << 53;
        U64 word = (U64{0, 1, 2, 3, 4, 5, 6, 7} + static_cast<uint64_t>(at + 1)) * kGamma + race.noise.key;
        U64 below{};
        for (int part = 0; part < kGroup / 8; ++part, word += 8 * kGamma)
            below |= (kAllBits - (mix(word) >> 11)) - limit;  // negative where 1 - u is small enough
        uint64_t any = 0;
        for (int lane = 0; lane < 8; ++lane) any |= below[lane];
        if (!(any >> 63)) continue;
        for (int64_t id = at; id < std::min(at + kGroup, end); ++id) {
            if (kAllBits - race.noise.bits_of(id) >= limit || !prefix.holds(row.logits[id], id)) continue;
            race.enter(id, std::exp(row.height(row.logits[id])));
        }
    }
}

void race_row(const Row &row, Prefix prefix, Race &race) {
    const int64_t first = std::find(row.peaks, row.peaks + row.n_tiles, row.largest) - row.peaks;
    race_tile(row, prefix, first, 1, race);  // its winner is a good mark for the others
    for (int64_t tile = 0; tile < row.n_tiles; ++tile) {
        if (tile == first || !(row.peaks[tile] >= prefix.cut)) continue;
        const double height = row.height(row.peaks[tile]);
        // No noise is below 2^-53: what is lower than this cannot win whatever its own is.
        if (height < std::log(race.best) - 38) continue;
        race_tile(row, prefix, tile, std::exp(height), race);
    }
}

int64_t find_first(const Row &row, float logit) {
    const int64_t tile = std::find(row.peaks, row.peaks + row.n_tiles, logit) - row.peaks;
    return std::find(row.logits + tile * kTile, row.logits + row.end_of(tile), logit) - row.logits;
}

// The token of a row that has a finite logit, or +inf.
int64_t draw(const Row &row, const Setting &setting, Scratch &scratch) {
    if (setting.is_greedy() || row.largest == __builtin_inff()) return find_first(row, row.largest);
    const Kept kept = find_kept(row, setting, scratch);
    Race race{Noise(setting.seed, setting.position)};
    if (kept.is_list)
        for (const Token &token : *kept.tokens) race.enter(token.id(), token.weight);
    else
        race_row(row, kept.prefix, race);
    return race.winner;
}

void spread(const Row &row, const Setting &setting, Scratch &scratch, double *probabilities) {
    std::fill(probabilities, probabilities + row.n, 0.0);
    if (row.largest == -__builtin_inff()) return;
    if (setting.is_greedy() || row.largest == __builtin_inff()) {
        probabilities[find_first(row, row.largest)] = 1;
        return;
    }
    const Kept kept = find_kept(row, setting, scratch);
    double total = 0;
    if (kept.is_list)
        for (const Token &token : *kept.tokens) total += probabilities[token.id()] = token.weight;
    else
        for (int64_t id = 0; id < row.n; ++id)
            if (kept.prefix.holds(row.logits[id], id))
                total += probabilities[id] = std::exp(row.height(row.logits[id]));
    for (int64_t id = 0; id < row.n; ++id) probabilities[id] /= total;
}

using Settings = nb::ndarray<const uint8_t, nb::shape<-1, sizeof(Setting)>, nb::c_contig, nb::device::cpu>;

[[noreturn]] void refuse(int64_t row, const char *name, double value, const char *allowed) {
    char text[160];
    std::snprintf(text, sizeof text, "row %lld: %s: got %g, allowed %s", static_cast<long long>(row), name, value, allowed);
    throw nb::value_error(text);
}

void require_setting(const Setting &setting, int64_t row) {
    const double infinite = __builtin_inf(), above_0 = __DBL_DENORM_MIN__;
    const auto in = [](double value, double low, double high) { return value >= low && value <= high; };
    if (!in(setting.temperature, 0, DBL_MAX)) refuse(row, "temperature", setting.temperature, "0 or more");
    if (!in(setting.min_p, 0, 1)) refuse(row, "min_p", setting.min_p, "0 to 1");
    if (!in(setting.top_p, above_0, 1)) refuse(row, "top_p", setting.top_p, "above 0 to 1 (1 is off)");
    if (!in(setting.typical_p, above_0, 1)) refuse(row, "typical_p", setting.typical_p, "above 0 to 1 (1 is off)");
    if (!in(setting.depth, 0, infinite)) refuse(row, "depth", setting.depth, "0 or more (infinity is off)");
}

const Setting *require_settings(const Settings &settings, int64_t n_rows) {
    if (static_cast<int64_t>(settings.shape(0)) != n_rows)
        throw nb::value_error(("settings: got " + std::to_string(settings.shape(0)) + " rows, allowed " +
                               std::to_string(n_rows) + ", one for each row of logits")
                                  .c_str());
    if (reinterpret_cast<uintptr_t>(settings.data()) % alignof(Setting))
        throw nb::value_error("settings: got unaligned memory, allowed an array of SETTINGS");
    const auto *rows = reinterpret_cast<const Setting *>(settings.data());
    for (int64_t row = 0; row < n_rows; ++row) require_setting(rows[row], row);
    return rows;
}

// About what a row costs in nanoseconds for each logit; decides about threads only.
constexpr double kCost = 0.35;

using Flags = nb::ndarray<bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void draw_rows(const Logits &array, const Settings &settings,
               const nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> &tokens, const Flags &faulty,
               const Flags &nan,
               const std::optional<nb::ndarray<double, nb::shape<3, -1>, nb::c_contig, nb::device::cpu>> &entropy,
               int64_t n_threads) {
    const LogitRows rows = require_logits(array);
    const Setting *setting = require_settings(settings, rows.n_rows);
    for (size_t n : {tokens.shape(0), faulty.shape(0), nan.shape(0)})
        if (static_cast<int64_t>(n) != rows.n_rows)
            throw nb::value_error("tokens, is_faulty, has_nan: allowed one place for each row of logits");
    if (entropy && static_cast<int64_t>(entropy->shape(1)) != rows.n_rows)
        throw nb::value_error("entropy: allowed (3, n_seqs), one column for each row of logits");
    double *measures = entropy ? entropy->data() : nullptr;
    int64_t *token = tokens.data();
    bool *is_faulty = faulty.data(), *has_nan = nan.data();
    nb::gil_scoped_release released;
    rows.each(kCost, n_threads, [&](int64_t index, Scratch &scratch) {
        Row row = survey(rows.read(index, scratch), rows.n_tokens, setting[index].temperature, scratch.peaks);
        if (measures) {
            const Entropy measured = measure_entropy(row);
            measures[index] = measured.entropy;
            measures[rows.n_rows + index] = measured.top_mass;
            measures[2 * rows.n_rows + index] = measured.varentropy;
            if (row.temperature == 1) row.total = measured.total;
        }
        is_faulty[index] = row.largest == -__builtin_inff();
        has_nan[index] = row.has_nan;
        token[index] = is_faulty[index] ? 0 : draw(row, setting[index], scratch);
    });
}

void spread_rows(const Logits &array, const Settings &settings,
                 nb::ndarray<double, nb::ndim<2>, nb::c_contig> probabilities, int64_t n_threads) {
    const LogitRows rows = require_logits(array);
    const Setting *setting = require_settings(settings, rows.n_rows);
    if (static_cast<int64_t>(probabilities.shape(0)) != rows.n_rows ||
        static_cast<int64_t>(probabilities.shape(1)) != rows.n_tokens)
        throw nb::value_error("probabilities: allowed the shape of logits");
    double *out = probabilities.data();
    nb::gil_scoped_release released;
    rows.each(kCost, n_threads, [&](int64_t index, Scratch &scratch) {
        const Row row = survey(rows.read(index, scratch), rows.n_tokens, setting[index].temperature, scratch.peaks);
        spread(row, setting[index], scratch, out + index * rows.n_tokens);
    });
}

}  // namespace

void bind_sampling(nb::module_ &m) {
    m.def("draw_rows", &draw_rows, nb::arg("logits").noconvert(), nb::arg("settings").noconvert(),
          nb::arg("tokens").noconvert(), nb::arg("is_faulty").noconvert(), nb::arg("has_nan").noconvert(),
          nb::arg("entropy").noconvert().none(), nb::arg("n_threads"));
    m.def("spread_rows", &spread_rows, nb::arg("logits").noconvert(), nb::arg("settings").noconvert(),
          nb::arg("probabilities").noconvert(), nb::arg("n_threads"));
}

}  // namespace tailbreak
