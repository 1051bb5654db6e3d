// Binds the codec's ops and reads and writes records of keys and values.

#include "state_codec.hpp"

#include "arrays.hpp"
#include "kv_record.hpp"

using namespace nb::literals;

namespace tailbreak {

const Fp8Values kFp8;

namespace {

using Codes = Array<uint8_t, 1>;
using ConstCodes = Array<const uint8_t, 1>;
using Values = Array<float, 1>;
using ConstValues = Array<const float, 1>;

void bound_encode_fp8(ConstValues values, Codes codes) {
    require(codes.size() == values.size(), "encode_fp8: got codes and values of different length");
    const float *source = values.data();
    uint8_t *target = codes.data();
    for (size_t i = 0, n = values.size(); i < n; ++i) target[i] = encode_fp8(source[i]);
}

void bound_decode_fp8(ConstCodes codes, Values values) {
    require(codes.size() == values.size(), "decode_fp8: got codes and values of different length");
    unpack_fp8(codes.data(), 1.0f, values.data(), codes.size());
}

// values and codes (n_groups, group), scales (n_groups,)
void bound_pack_fp8(Array<const float, 2> values, Array<uint8_t, 2> codes, Values scales) {
    const int64_t n = values.shape(0), group = values.shape(1);
    require(int64_t(codes.shape(0)) == n && int64_t(codes.shape(1)) == group &&
                int64_t(scales.size()) == n,
            "pack_fp8: got shapes that do not fit each other");
    for (int64_t i = 0; i < n; ++i)
        scales.data()[i] = pack_fp8(values.data() + i * group, codes.data() + i * group, group);
}

void bound_unpack_fp8(Array<const uint8_t, 2> codes, ConstValues scales, Array<float, 2> values) {
    const int64_t n = codes.shape(0), group = codes.shape(1);
    require(int64_t(values.shape(0)) == n && int64_t(values.shape(1)) == group &&
                int64_t(scales.size()) == n,
            "unpack_fp8: got shapes that do not fit each other");
    for (int64_t i = 0; i < n; ++i)
        unpack_fp8(codes.data() + i * group, scales.data()[i], values.data() + i * group, group);
}

// values (n_rows, n), codes (n_rows, n_groups * 16), scales (n_rows, n_groups)
template <class A, class B, class C>
void require_int4(const char *op, const A &values, const B &codes, const C &scales) {
    const size_t n_groups = size_t(int4_groups(int64_t(values.shape(1))));
    require(codes.shape(0) == values.shape(0) && scales.shape(0) == values.shape(0) &&
                codes.shape(1) == n_groups * kInt4Bytes && scales.shape(1) == n_groups,
            std::string(op) + ": got shapes that do not fit each other");
}

void bound_pack_int4(Array<const float, 2> values, Array<uint8_t, 2> codes, Array<float, 2> scales) {
    require_int4("pack_int4", values, codes, scales);
    for (size_t i = 0; i < values.shape(0); ++i)
        pack_int4(values.data() + i * values.shape(1), codes.data() + i * codes.shape(1),
                  scales.data() + i * scales.shape(1), values.shape(1));
}

void bound_unpack_int4(Array<const uint8_t, 2> codes, Array<const float, 2> scales, Array<float, 2> values) {
    require_int4("unpack_int4", values, codes, scales);
    for (size_t i = 0; i < values.shape(0); ++i)
        unpack_int4(codes.data() + i * codes.shape(1), scales.data() + i * scales.shape(1),
                    values.data() + i * values.shape(1), values.shape(1));
}

// records (n_slots, n_heads, record size); keys and values (n_tokens, n_heads, head_dim)
template <class A, class B>
KvRecord require_records(const char *op, const A &records, Array<const int64_t, 1> slots, const B &keys,
                         const B &values) {
    const std::string name = std::string(op) + ": ";
    const KvRecord record{int64_t(keys.shape(2))};
    require(record.head_dim >= 1 && record.head_dim <= KvRecord::kLongestHead,
            name + "got head_dim " + text(record.head_dim) + ", allowed 1 to " + text(KvRecord::kLongestHead));
    require(int64_t(records.shape(2)) == record.size(),
            name + "got records of " + text(records.shape(2)) + " bytes, allowed " + text(record.size()) +
                " for head_dim " + text(record.head_dim));
    require(keys.shape(0) == slots.size() && values.shape(0) == slots.size() &&
                keys.shape(1) == records.shape(1) && values.shape(1) == records.shape(1) &&
                values.shape(2) == keys.shape(2),
            name + "got shapes that do not fit each other");
    for (size_t i = 0; i < slots.size(); ++i)
        require(slots.data()[i] >= 0 && slots.data()[i] < int64_t(records.shape(0)),
                name + "got slot " + text(slots.data()[i]) + ", allowed 0 to " + text(records.shape(0) - 1));
    return record;
}

void bound_write_kv(Array<uint8_t, 3> records, Array<const int64_t, 1> slots, Array<const float, 3> keys,
                    Array<const float, 3> values) {
    const KvRecord record = require_records("write_kv", records, slots, keys, values);
    const int64_t n_heads = records.shape(1);
    for (size_t i = 0; i < slots.size(); ++i)
        for (int64_t head = 0; head < n_heads; ++head) {
            const int64_t row = (int64_t(i) * n_heads + head) * record.head_dim;
            record.pack(keys.data() + row, values.data() + row,
                        records.data() + (slots.data()[i] * n_heads + head) * record.size());
        }
}

void bound_read_kv(Array<const uint8_t, 3> records, Array<const int64_t, 1> slots, Array<float, 3> keys,
                   Array<float, 3> values) {
    const KvRecord record = require_records("read_kv", records, slots, keys, values);
    const int64_t n_heads = records.shape(1);
    for (size_t i = 0; i < slots.size(); ++i)
        for (int64_t head = 0; head < n_heads; ++head) {
            const int64_t row = (int64_t(i) * n_heads + head) * record.head_dim;
            const uint8_t *source = records.data() + (slots.data()[i] * n_heads + head) * record.size();
            record.unpack_key(source, keys.data() + row);
            record.unpack_value(source, values.data() + row);
        }
}

}  // namespace

void bind_state_codec(nb::module_ &m) {
    // noconvert: a converted copy of a result would be thrown away.
    const auto bind = [&](const char *name, auto function, auto... arguments) {
        m.def(name, function, arguments.noconvert()..., nb::call_guard<nb::gil_scoped_release>());
    };
    bind("encode_fp8", &bound_encode_fp8, "values"_a, "codes"_a);
    bind("decode_fp8", &bound_decode_fp8, "codes"_a, "values"_a);
    bind("pack_fp8", &bound_pack_fp8, "values"_a, "codes"_a, "scales"_a);
    bind("unpack_fp8", &bound_unpack_fp8, "codes"_a, "scales"_a, "values"_a);
    bind("pack_int4", &bound_pack_int4, "values"_a, "codes"_a, "scales"_a);
    bind("unpack_int4", &bound_unpack_int4, "codes"_a, "scales"_a, "values"_a);
    bind("write_kv", &bound_write_kv, "records"_a, "slots"_a, "keys"_a, "values"_a);
    bind("read_kv", &bound_read_kv, "records"_a, "slots"_a, "keys"_a, "values"_a);
}

}  // namespace tailbreak
