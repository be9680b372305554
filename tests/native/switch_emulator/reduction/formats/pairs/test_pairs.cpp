#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "switch_emulator/reduction/formats/carry.hpp"
#include "switch_emulator/reduction/formats/pairs/pairs.hpp"
#include "switch_emulator/reduction/formats/registry.hpp"

namespace innet::reduction {

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr PairFormat kWords{KeyType::kU64, DType::kI64};

template <typename T>
void append(Bytes& bytes, T value) {
    std::array<std::uint8_t, sizeof value> raw;
    std::memcpy(raw.data(), &value, sizeof value);
    for (const std::uint8_t byte : raw) bytes.push_back(byte);
}

template <typename Key, typename Value>
Bytes content(const std::vector<std::pair<Key, Value>>& pairs) {
    Bytes bytes;
    append(bytes, static_cast<std::uint32_t>(pairs.size()));
    for (const auto& pair : pairs) append(bytes, pair.first);
    for (const auto& pair : pairs) append(bytes, pair.second);
    return bytes;
}

Bytes words(const std::vector<std::pair<std::uint64_t, std::int64_t>>& pairs) {
    return content(pairs);
}

struct Merged {
    std::uint64_t carry;
    Bytes bytes;
    bool operator==(const Merged&) const = default;
};

Merged merge(Op op, PairFormat format, const std::vector<Bytes>& operands) {
    PairMerger merger;
    const std::vector<wire::ByteView> views(operands.begin(), operands.end());
    const std::uint64_t carry = merger.merge(op, format, views);
    Bytes result(merger.size_bytes());
    merger.write(result);
    return {carry, result};
}

Merged ok(Bytes bytes) { return {0, std::move(bytes)}; }

}  // namespace

TEST_CASE("formats are named after their key and value") {
    CHECK(parse_pair_format("u64-f32") == PairFormat{KeyType::kU64, DType::kF32});
    CHECK(parse_pair_format("u32-i64") == PairFormat{KeyType::kU32, DType::kI64});
    for (const char* unknown : {"u64", "u64-", "-f32", "u16-f32", "u64-f16", "u64-f32-f32", ""}) {
        CHECK(!parse_pair_format(unknown));
    }
}

TEST_CASE("a result is the union of the keys, with the values of equal keys added") {
    CHECK(merge(Op::kSum, kWords, {words({{1, 10}, {5, 50}}), words({{1, 1}, {3, 3}, {9, 9}})}) ==
          ok(words({{1, 11}, {3, 3}, {5, 50}, {9, 9}})));
    CHECK(merge(Op::kMax, kWords, {words({{1, -5}}), words({{1, 2}}), words({{0, -1}})}) ==
          ok(words({{0, -1}, {1, 2}})));
    CHECK(merge(Op::kMin, kWords, {words({}), words({{7, 7}}), words({})}) == ok(words({{7, 7}})));
    CHECK(merge(Op::kSum, kWords, {words({}), words({})}) == ok(words({})));
    CHECK(merge(Op::kSum, kWords, {words({{~0ULL, 4}})}) == ok(words({{~0ULL, 4}})));
}

TEST_CASE("random unions equal a map's, in every operation and for both keys") {
    std::mt19937_64 random(11);
    for (int round = 0; round < 200; ++round) {
        std::vector<Bytes> operands;
        std::map<std::uint32_t, double> expected;
        const Op op = std::array{Op::kSum, Op::kMin, Op::kMax, Op::kProd}[random() % 4];
        for (std::size_t count = 1 + random() % 9; count > 0; --count) {
            std::map<std::uint32_t, double> mine;
            for (std::size_t keys = random() % 40; keys > 0; --keys) {
                mine[static_cast<std::uint32_t>(random() % 60)] =
                    std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 90) - 64);
            }
            for (const auto& [key, value] : mine) {
                const auto [place, is_new] = expected.try_emplace(key, value);
                if (is_new) continue;
                double& sum = place->second;
                if (op == Op::kSum) sum += value;
                if (op == Op::kProd) sum *= value;
                if (op == Op::kMin) sum = std::min(sum, value);
                if (op == Op::kMax) sum = std::max(sum, value);
            }
            operands.push_back(
                content(std::vector<std::pair<std::uint32_t, double>>(mine.begin(), mine.end())));
        }
        CHECK(merge(op, {KeyType::kU32, DType::kF64}, operands) ==
              ok(content(std::vector<std::pair<std::uint32_t, double>>(expected.begin(),
                                                                       expected.end()))));
    }
}

TEST_CASE("floats are added from left to right and keep signs, infinities and NaN") {
    using Floats = std::vector<std::pair<std::uint64_t, float>>;
    const PairFormat format{KeyType::kU64, DType::kF32};
    CHECK(merge(Op::kSum, format,
                {content(Floats{{1, 1e8F}}), content(Floats{{1, -1e8F}}),
                 content(Floats{{1, 1.0F}})}) == ok(content(Floats{{1, 1.0F}})));
    CHECK(merge(Op::kSum, format,
                {content(Floats{{1, 1.0F}}), content(Floats{{1, 1e8F}}),
                 content(Floats{{1, -1e8F}})}) == ok(content(Floats{{1, 0.0F}})));
    // A key that the others lack is not added to a zero: -0.0 stays.
    CHECK(merge(Op::kSum, format, {content(Floats{}), content(Floats{{2, -0.0F}})}) ==
          ok(content(Floats{{2, -0.0F}})));
    const float infinity = std::numeric_limits<float>::infinity();
    CHECK(merge(Op::kSum, format, {content(Floats{{1, infinity}}), content(Floats{{1, 5.0F}})}) ==
          ok(content(Floats{{1, infinity}})));
    const Merged nan =
        merge(Op::kMax, format, {content(Floats{{1, std::nanf("")}}), content(Floats{{1, 5.0F}})});
    float value = 0;
    std::memcpy(&value, nan.bytes.data() + nan.bytes.size() - 4, 4);
    CHECK(std::isnan(value));
}

TEST_CASE("sums wrap around and have the carry of their keys; what is unshared is unchanged") {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
    const auto sum = [](std::vector<Bytes> operands) { return merge(Op::kSum, kWords, operands); };
    const Merged up = sum({words({{1, kMost}, {7, 1}}), words({{1, 1}})});
    CHECK(up.bytes == words({{1, kLeast}, {7, 1}}));
    CHECK(up.carry == carry_weight(1));
    CHECK(sum({words({{1, kMost}}), words({{2, kMost}})}) == ok(words({{1, kMost}, {2, kMost}})));
    // It leaves its type on the way and comes back, in one merge and in two.
    CHECK(sum({words({{1, kMost}}), words({{1, 1}}), words({{1, -1}})}) == ok(words({{1, kMost}})));
    const Merged down = sum({up.bytes, words({{1, -1}})});
    CHECK(down.bytes == words({{1, kMost}, {7, 1}}));
    CHECK(up.carry + down.carry == 0);
    CHECK(merge(Op::kProd, kWords, {words({{1, kMost}}), words({{1, kMost}})}) ==
          ok(words({{1, 1}})));
}

TEST_CASE("content is counted when well-formed, and refused in every other form") {
    CHECK(count_pairs(kWords, words({})) == 0);
    CHECK(count_pairs(kWords, words({{1, 1}, {2, 2}})) == 2);
    CHECK(!count_pairs(kWords, {}));
    CHECK(!count_pairs(kWords, words({{2, 1}, {1, 1}})));
    CHECK(!count_pairs(kWords, words({{2, 1}, {2, 1}})));
    const Bytes whole = words({{1, 1}, {2, 2}, {3, 3}});
    for (std::size_t size = 0; size < whole.size(); ++size) {
        CHECK(!count_pairs(kWords, wire::ByteView(whole).first(size)));
    }
    Bytes longer = whole;
    longer.push_back(0);
    CHECK(!count_pairs(kWords, longer));
    Bytes huge(16, 0xff);
    CHECK(!count_pairs(kWords, huge));
}

TEST_CASE("names say which pairs are reduced, and how") {
    CHECK(find_format("sum.u64-f32"));
    CHECK(find_format("max.u32-i64"));
    CHECK(find_format("sum.u64-f32") != find_format("sum.u32-f32"));
    CHECK(!find_format("bor.u64-i64"));
    CHECK(!find_format("sum.u64-f16"));
}

TEST_CASE("the pairs format refuses malformed pairs and results that do not fit") {
    const Format* format = find_format("sum.u64-i64");
    REQUIRE(format);
    const Bytes left = words({{1, 10}, {5, 50}});
    const Bytes right = words({{1, 1}, {3, 3}});
    CHECK(!format->find_fault(left));
    CHECK(format->find_fault(wire::ByteView(left).first(7)));
    CHECK(format->find_fault(words({{5, 1}, {1, 1}})));
    const std::array<wire::ByteView, 2> operands{left, right};
    Bytes result(format->max_result_size(operands));
    CHECK(result.size() == kPairCountBytes + 4 * kWords.pair_size());
    const Reduced reduced = format->reduce(operands, result);
    CHECK(reduced.status == ReduceStatus::kOk);
    result.resize(reduced.size);
    CHECK(result == words({{1, 11}, {3, 3}, {5, 50}}));
    const auto too_little = std::span(result).first(result.size() - 1);
    CHECK(format->reduce(operands, too_little).status == ReduceStatus::kTooLarge);
}

}  // namespace innet::reduction
