// One token's key and value of one head in packed form, side by side:
// key codes (FP8, head_dim bytes), value codes (INT4, 16 bytes for each group of 32), the key's
// scale, the value groups' scales.

#pragma once

#include "state_codec.hpp"

namespace tailbreak {

struct KvRecord {
    int64_t head_dim;

    int64_t n_groups() const { return int4_groups(head_dim); }
    int64_t value_codes() const { return head_dim; }
    int64_t key_scale() const { return head_dim + n_groups() * kInt4Bytes; }
    int64_t value_scales() const { return key_scale() + 4; }
    int64_t size() const { return value_scales() + 4 * n_groups(); }

    void pack(const float *key, const float *value, uint8_t *record) const {
        const float scale = pack_fp8(key, record, head_dim);
        std::memcpy(record + key_scale(), &scale, sizeof scale);
        float scales[kMostGroups];
        pack_int4(value, record + value_codes(), scales, head_dim);
        std::memcpy(record + value_scales(), scales, 4 * n_groups());
    }

    void unpack_key(const uint8_t *record, float *key) const {
        float scale;
        std::memcpy(&scale, record + key_scale(), sizeof scale);
        unpack_fp8(record, scale, key, head_dim);
    }

    void unpack_value(const uint8_t *record, float *value) const {
        float scales[kMostGroups];
        std::memcpy(scales, record + value_scales(), 4 * n_groups());
        unpack_int4(record + value_codes(), scales, value, head_dim);
    }

    static constexpr int64_t kMostGroups = 64;
    static constexpr int64_t kLongestHead = kMostGroups * kInt4Group;
};

}  // namespace tailbreak
