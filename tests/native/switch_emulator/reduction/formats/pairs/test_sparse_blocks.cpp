// Block-sparse tensors: pairs whose values are blocks.

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "switch_emulator/reduction/formats/pairs/pairs.hpp"
#include "switch_emulator/reduction/formats/registry.hpp"

namespace innet::reduction {

namespace {

using Bytes = std::vector<std::uint8_t>;
using Block = std::array<float, kSparseBlockElements>;
using Blocks = std::map<std::uint32_t, Block>;

void append(Bytes& bytes, const void* from, std::size_t size) {
    const std::size_t end = bytes.size();
    bytes.resize(end + size);
    std::memcpy(bytes.data() + end, from, size);
}

Bytes content(const Blocks& blocks) {
    const auto count = static_cast<std::uint32_t>(blocks.size());
    Bytes bytes;
    append(bytes, &count, sizeof count);
    for (const auto& [index, block] : blocks) append(bytes, &index, sizeof index);
    for (const auto& [index, block] : blocks) append(bytes, block.data(), sizeof block);
    return bytes;
}

Block filled(float value) {
    Block block;
    block.fill(value);
    return block;
}

const Format& format() { return *find_format("sum.u32-f32x32"); }

Bytes sum(const std::vector<Bytes>& operands) {
    const std::vector<wire::ByteView> views(operands.begin(), operands.end());
    for (const wire::ByteView view : views) REQUIRE(!format().find_fault(view));
    Bytes result(format().max_result_size(views));
    const Reduced reduced = format().reduce(views, result);
    REQUIRE(reduced.status == ReduceStatus::kOk);
    result.resize(reduced.size);
    return result;
}

}  // namespace

TEST_CASE("blocks have one name, and only a sum") {
    CHECK(find_format("sum.u32-f32x32"));
    for (const char* unknown : {"max.u32-f32x32", "sum.u64-f32x32", "sum.u32-f64x32",
                                "sum.u32-f32x64", "sum.u32-f32x", "sum.f32x32"}) {
        CHECK(!find_format(unknown));
    }
    CHECK(parse_pair_format(kSparseBlocksName) == kSparseBlocks);
    const std::string_view width = kSparseBlocksName.substr(kSparseBlocksName.find('x') + 1);
    CHECK(width == std::to_string(kSparseBlockElements));
}

TEST_CASE("random unions of blocks equal a map's, each element added from left to right") {
    std::mt19937 random(5);
    std::normal_distribution<float> number(0, 1e3F);
    for (int round = 0; round < 100; ++round) {
        std::vector<Bytes> operands;
        Blocks expected;
        for (std::size_t count = 1 + random() % 7; count > 0; --count) {
            Blocks mine;
            for (std::size_t blocks = random() % 20; blocks > 0; --blocks) {
                for (float& element : mine[static_cast<std::uint32_t>(random() % 30)]) {
                    element = number(random);
                }
            }
            for (const auto& [index, block] : mine) {
                const auto [place, is_new] = expected.try_emplace(index, block);
                for (std::size_t i = 0; !is_new && i < block.size(); ++i) {
                    place->second[i] += block[i];
                }
            }
            operands.push_back(content(mine));
        }
        CHECK(sum(operands) == content(expected));
    }
}

TEST_CASE("the union of empty sets is empty, and an unshared block is unchanged") {
    CHECK(sum({content({}), content({})}) == content({}));
    const Blocks minus_zero{{7, filled(-0.0F)}};
    CHECK(sum({content({}), content(minus_zero), content({})}) == content(minus_zero));
}

TEST_CASE("infinity and NaN stay within their element") {
    Block bad = filled(1);
    bad[3] = std::numeric_limits<float>::infinity();
    bad[31] = std::nanf("");
    const Bytes total = sum({content({{1, bad}}), content({{1, filled(2)}})});
    Block block;
    std::memcpy(block.data(), total.data() + total.size() - sizeof block, sizeof block);
    CHECK(block[0] == 3);
    CHECK(std::isinf(block[3]));
    CHECK(block[30] == 3);
    CHECK(std::isnan(block[31]));
}

TEST_CASE("malformed block content is refused") {
    const Bytes whole = content({{1, filled(1)}, {4, filled(2)}});
    CHECK(!format().find_fault(whole));
    for (std::size_t size = 0; size < whole.size(); ++size) {
        CHECK(format().find_fault(wire::ByteView(whole).first(size)));
    }
    Bytes longer = whole;
    longer.push_back(0);
    CHECK(format().find_fault(longer));
    Bytes same_index = whole;
    same_index[4] = 4;
    CHECK(format().find_fault(same_index));
    Bytes descending = whole;
    descending[4] = 5;
    CHECK(format().find_fault(descending));
    CHECK(format().find_fault(Bytes(2000, 0xff)));
}

TEST_CASE("a union of blocks that does not fit is reported") {
    const Bytes left = content({{1, filled(1)}});
    const Bytes right = content({{2, filled(2)}});
    const std::array<wire::ByteView, 2> operands{left, right};
    Bytes result(format().max_result_size(operands) - 1);
    CHECK(format().reduce(operands, result).status == ReduceStatus::kTooLarge);
}

}  // namespace innet::reduction
