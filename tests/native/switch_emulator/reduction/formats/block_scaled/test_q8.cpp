#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "switch_emulator/reduction/formats/block_scaled/q8.hpp"
#include "switch_emulator/reduction/formats/registry.hpp"

namespace innet::reduction {

namespace {

std::vector<std::uint8_t> encoded(const std::vector<float>& numbers) {
    std::vector<std::uint8_t> blocks(q8_encoded_size(numbers.size()));
    q8_encode(numbers, blocks, {});
    return blocks;
}

std::vector<float> decoded(const std::vector<std::uint8_t>& blocks, std::size_t elements) {
    std::vector<float> numbers(elements);
    q8_decode(blocks, numbers);
    return numbers;
}

/// The sum of blocks as they lie in packets: at odd places.
std::vector<std::uint8_t> sum(const std::vector<std::vector<std::uint8_t>>& operands) {
    std::vector<std::vector<std::uint8_t>> buffers;
    std::vector<wire::ByteView> views;
    for (const auto& operand : operands) {
        auto& buffer = buffers.emplace_back(operand.size() + 3);
        std::ranges::copy(operand, buffer.begin() + 3);
        views.push_back(wire::ByteView(buffer).subspan(3));
    }
    std::vector<std::uint8_t> result(operands.front().size());
    const Reduced reduced = find_format("sum.q8")->reduce(views, result);
    CHECK(reduced.status == ReduceStatus::kOk);
    CHECK(reduced.size == result.size());
    return result;
}

}  // namespace

TEST_CASE("q8: whole numbers up to 127 are exact at any scale") {
    for (const int exponent : {-126, -20, 0, 20, 120}) {
        for (const std::size_t elements : {1U, 31U, 32U, 33U, 100U}) {
            std::vector<float> numbers(elements);
            for (std::size_t i = 0; i < elements; ++i) {
                const float whole = static_cast<float>(i) - 64;
                numbers[i] = std::ldexp(i % 32 == 0 ? 127.0F : whole, exponent);
            }
            CHECK(decoded(encoded(numbers), elements) == numbers);
        }
    }
}

TEST_CASE("q8: halves are rounded to even, and carry into the next scale") {
    CHECK(decoded(encoded({100, 0.5, 1.5, -2.5}), 4) == std::vector<float>{100, 0, 2, -2});
    CHECK(decoded(encoded({127.25, 0.5}), 2) == std::vector<float>{127, 0});
    CHECK(decoded(encoded({127.5, 3, 5}), 3) == std::vector<float>{128, 4, 4});
}

TEST_CASE("q8: the encoding error can replace the numbers in place") {
    std::vector<float> numbers{100, 0.25F, -0.75F};
    std::vector<std::uint8_t> blocks(q8_encoded_size(3));
    q8_encode(numbers, blocks, numbers);
    CHECK(numbers == std::vector<float>{0, 0.25F, 0.25F});
}

TEST_CASE("q8: a block with NaN, infinity or a number too large is NaN in every sum") {
    const float infinity = std::numeric_limits<float>::infinity();
    const float largest = std::numeric_limits<float>::max();
    for (const float bad : {std::nanf(""), infinity, -infinity, largest}) {
        std::vector<float> numbers(64, 1);
        numbers[3] = bad;
        const auto one = encoded(std::vector<float>(64, 1));
        const auto total = decoded(sum({one, encoded(numbers), one}), 64);
        CHECK(std::isnan(total[0]));
        CHECK(std::isnan(total[31]));
        CHECK(total[32] == 3);
    }
}

TEST_CASE("q8: a node adds from left to right in f32 and rounds once") {
    const float large = std::ldexp(1.0F, 30);
    const auto column = [](float value) { return encoded({value}); };
    CHECK(decoded(sum({column(large), column(-large), column(1)}), 1).front() == 1);
    CHECK(decoded(sum({column(1), column(large), column(-large)}), 1).front() == 0);
    // 100 + 0.75 + 0.75 + 0.75 is rounded at its end alone.
    const auto small = column(0.75F);
    CHECK(decoded(sum({column(100), small, small, small}), 1).front() == 102);
}

}  // namespace innet::reduction
