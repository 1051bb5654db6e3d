#include "kept.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace tailbreak {
namespace {

constexpr size_t kList = 512;  // a longer list of weights costs more than sums over the row
constexpr size_t kUnweighed = 4096;  // of tokens that are only to be ordered
constexpr std::ptrdiff_t kFew = 32;
constexpr double kMargin = 1 + kSteerError;

// The smallest logit whose height is at least `height`: the filters' comparison, turned into one of
// logits and made exact by stepping to the neighbours.
float cut_at(const Row &row, double height) {
    const float infinite = __builtin_inff();
    const double guess = static_cast<double>(row.largest) + row.temperature * height;
    float cut = guess < -FLT_MAX ? -FLT_MAX : static_cast<float>(guess);
    while (cut < row.largest && !(row.height(cut) >= height)) cut = std::nextafter(cut, infinite);
    while (cut > -FLT_MAX && row.height(std::nextafter(cut, -infinite)) >= height)
        cut = std::nextafter(cut, -infinite);
    return cut;
}

void raise(Prefix &prefix, float cut) {
    if (cut > prefix.cut) prefix = {cut, INT64_MAX};
}

double mass_of(const std::vector<Token> &tokens) {
    double mass = 0;
    for (const Token &token : tokens) mass += token.weight;
    return mass;
}

bool is_before(const Token &one, const Token &other) { return one.key < other.key; }

struct Reached {
    size_t n;  // tokens in the prefix
    double mass;
};

// Brings to the front the smallest prefix of the order whose mass reaches `target`.
Reached reach(std::vector<Token> &tokens, double target) {
    auto begin = tokens.begin(), end = tokens.end();
    double mass = 0;
    while (end - begin > kFew) {
        const auto middle = begin + (end - begin) / 2;
        std::nth_element(begin, middle, end, is_before);
        double half = 0;
        for (auto token = begin; token != middle; ++token) half += token->weight;
        if (mass + half >= target) {
            end = middle;
        } else {
            mass += half;
            begin = middle;
        }
    }
    std::sort(begin, end, is_before);
    for (; begin != end; ++begin) {
        mass += begin->weight;
        if (mass >= target) {
            ++begin;
            break;
        }
    }
    return {static_cast<size_t>(begin - tokens.begin()), mass};
}

// The n-th largest peak: at least n tokens are not below it. Needs n <= n_tiles.
float nth_peak(const Row &row, int64_t n, Scratch &scratch) {
    auto &sorted = scratch.sorted;
    sorted.assign(row.peaks, row.peaks + row.n_tiles);
    std::nth_element(sorted.begin(), sorted.begin() + (n - 1), sorted.end(), std::greater<float>());
    return std::max(sorted[static_cast<size_t>(n - 1)], -FLT_MAX);
}

void weigh(const Row &row, std::vector<Token> &tokens) {
    for (Token &token : tokens) token.weight = std::exp(row.height(token.logit()));
}

// Lists the tokens of `prefix`; false, and no list, where there are more than `limit`.
bool list_tokens(const Row &row, Prefix prefix, size_t limit, std::vector<Token> &tokens) {
    tokens.clear();
    for (int64_t tile = 0; tile < row.n_tiles; ++tile) {
        if (!(row.peaks[tile] >= prefix.cut)) continue;
        visit_hits(
            row.logits, tile * kTile, row.end_of(tile), [&](F32 logits) -> I32 { return logits >= prefix.cut; },
            [&](int64_t id) {
                if (prefix.holds(row.logits[id], id)) tokens.emplace_back(row.logits[id], id);
            });
        if (tokens.size() > limit) return false;
    }
    return true;
}

// Bins that fall with the logit, from the largest down to `low`; what is lower shares the last one.
// Any monotone rule finds the right prefix, and this one finds it with few tokens in the last step.
struct Bins {
    float largest, scale;
    int32_t n;

    Bins(const Row &row, float low)
        : largest(row.largest), n(static_cast<int32_t>(std::clamp<int64_t>(row.n / 16, 32, 2048))) {
        scale = static_cast<float>((n - 2) / (static_cast<double>(row.largest) - low));
        if (!std::isfinite(scale)) scale = 0;
    }
    I32 of(F32 logits) const {
        const F32 place = (largest - logits) * scale, last = splat(static_cast<float>(n - 1));
        return __builtin_convertvector(place < last ? place : last, I32);
    }
};

// Weights of up to 16 tokens from `at` on; 0 for what the prefix does not hold.
void weigh_lanes(const Row &row, Prefix prefix, bool by_count, int64_t at, const float *logits, double *weights) {
    if (by_count) {
        std::fill(weights, weights + kLanes, 1.0);
    } else {
        const double largest = row.largest, scale = 1 / row.temperature;
        store(weights, exp_negative((widen(logits) - largest) * scale));
        store(weights + 8, exp_negative((widen(logits + 8) - largest) * scale));
    }
    for (int lane = 0; lane < kLanes; ++lane)
        weights[lane] = prefix.holds(logits[lane], at + lane) ? weights[lane] : 0.0;
}

// The smallest prefix inside `within` that reaches `share` of its mass, or has `share` tokens.
// Two sweeps: mass by bins, then the tokens of the bin in which it is reached.
Prefix select(const Row &row, Prefix within, float low, double share, bool by_count, Scratch &scratch) {
    const Bins rule(row, low);
    auto &bins = scratch.bins;
    bins.assign(static_cast<size_t>(rule.n), 0.0);
    float padded[kLanes];
    double weights[kLanes];
    int32_t places[kLanes];
    for (int64_t tile = 0; tile < row.n_tiles; ++tile) {
        if (!(row.peaks[tile] >= within.cut)) continue;
        for (int64_t at = tile * kTile, end = row.end_of(tile); at < end; at += kLanes) {
            const float *logits = row.logits + at;
            if (end - at < kLanes) {
                std::fill(padded, padded + kLanes, __builtin_nanf(""));
                std::copy(logits, row.logits + end, padded);
                logits = padded;
            }
            weigh_lanes(row, within, by_count, at, logits, weights);
            store(places, rule.of(load<F32>(logits)));
            for (int lane = 0; lane < kLanes; ++lane) bins[static_cast<size_t>(places[lane])] += weights[lane];
        }
    }
    double target = share;
    if (!by_count) {
        double total = 0;
        for (double bin : bins) total += bin;
        target = share * total;
    }
    double mass = 0;
    int32_t crossing = 0;
    for (; crossing < rule.n - 1 && mass + bins[static_cast<size_t>(crossing)] < target; ++crossing)
        mass += bins[static_cast<size_t>(crossing)];
    auto &tokens = scratch.crossing;
    tokens.clear();
    for (int64_t tile = 0; tile < row.n_tiles; ++tile) {
        if (!(row.peaks[tile] >= within.cut)) continue;
        visit_hits(
            row.logits, tile * kTile, row.end_of(tile), [&](F32 logits) -> I32 { return rule.of(logits) == crossing; },
            [&](int64_t id) {
                if (within.holds(row.logits[id], id)) tokens.emplace_back(row.logits[id], id);
            });
    }
    if (tokens.empty()) return within;
    if (by_count)
        for (Token &token : tokens) token.weight = 1;
    else
        weigh(row, tokens);
    const Token &last = tokens[reach(tokens, target - mass).n - 1];
    return {last.logit(), last.id()};
}

// Finds the nucleus of an otherwise unfiltered row in a short list; false where it is no short one.
// Candidates are first the tokens above some peaks, then all that can be members: the least member
// of the nucleus has a share of at least (1 - p) / n, because what it ends leaves at least 1 - p.
bool list_nucleus(const Row &row, double top_p, double total, float bound, Scratch &scratch) {
    const float guess = nth_peak(row, std::max<int64_t>(1, row.n_tiles / 4), scratch);
    auto &tokens = scratch.tokens;
    for (float cut : {std::max(guess, bound), bound}) {
        if (!list_tokens(row, {cut, INT64_MAX}, kList, tokens)) return false;
        weigh(row, tokens);
        if (mass_of(tokens) < top_p * total * kMargin) continue;
        const Reached reached = reach(tokens, top_p * total / kMargin);
        const bool is_certain = reached.mass >= top_p * total * kMargin;
        const size_t n = is_certain ? reached.n : reach(tokens, top_p * exact_total(row)).n;
        tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(n), tokens.end());
        return true;
    }
    return false;
}

void keep_nucleus(const Row &row, double top_p, bool is_whole, Kept &kept, Scratch &scratch) {
    auto &tokens = *kept.tokens;
    if (kept.is_list) {
        const size_t n = reach(tokens, top_p * mass_of(tokens)).n;
        tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(n), tokens.end());
        return;
    }
    float low = kept.prefix.cut;
    if (is_whole) {
        const double total = steer_total(row);
        const double share = (1 - top_p) / static_cast<double>(row.n) * total / kMargin;
        low = cut_at(row, std::log(std::max(share, 1e-300)));
        kept.is_list = list_nucleus(row, top_p, total, low, scratch);
        if (kept.is_list) return;
    }
    kept.prefix = select(row, kept.prefix, low, top_p, false, scratch);
}

// Typical-p: the tokens whose surprise is nearest to the entropy, until their mass reaches `mass`;
// all that are as near as the last one.
void keep_typical(const Row &row, double mass, std::vector<Token> &tokens) {
    const double total = mass_of(tokens), log_total = std::log(total);
    double entropy = 0;
    for (const Token &token : tokens)
        if (token.weight > 0) entropy += token.weight / total * (log_total - row.height(token.logit()));
    auto distance = [&](const Token &token) { return std::abs(log_total - row.height(token.logit()) - entropy); };
    std::vector<Token> ranked(tokens);
    for (Token &token : ranked) {
        const double far = distance(token);
        std::memcpy(&token.key, &far, sizeof far);  // the bits of positive doubles rise as they do
    }
    const uint64_t last = ranked[reach(ranked, mass * total).n - 1].key;
    double limit;
    std::memcpy(&limit, &last, sizeof limit);
    tokens.erase(std::remove_if(tokens.begin(), tokens.end(), [&](const Token &t) { return distance(t) > limit; }),
                 tokens.end());
}

// Drops from the list what is lower than `height`, counted from its own largest logit.
void drop_low(const Row &row, double height, std::vector<Token> &tokens) {
    Row left = row;
    left.largest = std::min_element(tokens.begin(), tokens.end(), is_before)->logit();
    tokens.erase(std::remove_if(tokens.begin(), tokens.end(),
                                [&](const Token &token) { return !(left.height(token.logit()) >= height); }),
                 tokens.end());
}

void keep_top(const Row &row, int64_t top_k, Kept &kept, Scratch &scratch) {
    const bool is_few = top_k <= row.n_tiles;
    const float bound = is_few ? nth_peak(row, top_k, scratch) : -FLT_MAX;
    auto &tokens = *kept.tokens;
    kept.is_list = list_tokens(row, {bound, INT64_MAX}, kUnweighed, tokens);
    if (!kept.is_list) {
        const float low = is_few ? bound : nth_peak(row, row.n_tiles, scratch) * 2 - row.largest;
        kept.prefix = select(row, kept.prefix, low, static_cast<double>(top_k), true, scratch);
        return;
    }
    if (static_cast<int64_t>(tokens.size()) > top_k) {
        std::nth_element(tokens.begin(), tokens.begin() + top_k, tokens.end(), is_before);
        tokens.erase(tokens.begin() + top_k, tokens.end());
    }
    weigh(row, tokens);
}

}  // namespace

Kept find_kept(const Row &row, const Setting &setting, Scratch &scratch) {
    Kept kept;
    kept.tokens = &scratch.tokens;
    const bool has_top_k = setting.top_k > 0 && setting.top_k < row.n, has_min_p = setting.min_p > 0;
    const bool needs_masses = setting.top_p < 1 || setting.typical_p < 1;
    if (has_top_k) keep_top(row, setting.top_k, kept, scratch);
    if (has_min_p) {
        const double height = std::log(setting.min_p);
        if (kept.is_list) drop_low(row, height, scratch.tokens);
        raise(kept.prefix, cut_at(row, height));
    }
    const auto list = [&](size_t limit) {
        if (kept.is_list) return;
        kept.is_list = list_tokens(row, kept.prefix, limit, scratch.tokens);
        if (kept.is_list) weigh(row, scratch.tokens);
    };
    if (needs_masses && (has_top_k || has_min_p)) list(kList);
    if (setting.top_p < 1) keep_nucleus(row, setting.top_p, !has_top_k && !has_min_p, kept, scratch);
    if (setting.typical_p < 1) {
        list(SIZE_MAX);
        keep_typical(row, setting.typical_p, scratch.tokens);
    }
    if (setting.depth < __builtin_inf()) {
        if (kept.is_list) drop_low(row, -setting.depth, scratch.tokens);
        else raise(kept.prefix, cut_at(row, -setting.depth));
    }
    return kept;
}

void list_top(const Row &row, int64_t n, Scratch &scratch) {
    scratch.tokens.clear();
    if (n == 0) return;
    const double infinite = __builtin_inf();
    const Kept kept = find_kept(row, {1, 0, 1, 1, infinite, n, 0, 0}, scratch);
    if (!kept.is_list) list_tokens(row, kept.prefix, SIZE_MAX, scratch.tokens);
    std::sort(scratch.tokens.begin(), scratch.tokens.end(), is_before);
}

}  // namespace tailbreak
