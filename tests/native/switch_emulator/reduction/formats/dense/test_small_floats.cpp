#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "switch_emulator/reduction/formats/dense/kernels.hpp"

namespace innet::reduction {

namespace {

/// A type of OFP8 by its table of values.
struct SmallType {
    DType dtype;
    int exponent_bits;
    int mantissa_bits;
    bool has_infinity;
};

constexpr SmallType kE4{DType::kE4m3fn, 4, 3, false};
constexpr SmallType kE5{DType::kE5m2, 5, 2, true};

/// The value of a code, in double arithmetic.
double value_of(const SmallType& type, unsigned code) {
    const int bias = (1 << (type.exponent_bits - 1)) - 1;
    const int exponent = static_cast<int>((code & 0x7f) >> type.mantissa_bits);
    const int mantissa = static_cast<int>(code) & ((1 << type.mantissa_bits) - 1);
    const double sign = (code & 0x80) != 0 ? -1.0 : 1.0;
    if (type.has_infinity && exponent == (1 << type.exponent_bits) - 1) {
        return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                             : std::numeric_limits<double>::quiet_NaN();
    }
    if (!type.has_infinity && (code & 0x7f) == 0x7f) return std::nan("");
    const int scale = std::max(exponent, 1) - bias - type.mantissa_bits;
    const int whole = exponent == 0 ? mantissa : mantissa + (1 << type.mantissa_bits);
    return sign * std::ldexp(whole, scale);
}

/// The code nearest to a value, of two equally near ones the even one: found among all codes.
unsigned nearest(const SmallType& type, float value) {
    const unsigned sign = std::signbit(value) ? 0x80 : 0;
    const unsigned beyond = type.has_infinity ? 0x7c : 0x7f;
    if (std::isnan(value)) return sign | 0x7f;
    const double size = std::fabs(static_cast<double>(value));
    unsigned best = 0;
    for (unsigned code = 0; code < beyond; ++code) {
        const double distance = std::fabs(value_of(type, code) - size);
        const double least = std::fabs(value_of(type, best) - size);
        if (distance < least || (distance == least && code % 2 == 0)) best = code;
    }
    // Where the next code would be, if it were a number.
    const double largest = value_of(type, beyond - 1);
    const double half_step = (largest - value_of(type, beyond - 2)) / 2;
    const bool rounds_beyond =
        size > largest + half_step || (size == largest + half_step && (beyond - 1) % 2 != 0);
    return sign | (rounds_beyond ? beyond : best);
}

std::vector<std::uint8_t> reduce_codes(Op op, DType dtype,
                                       const std::vector<std::vector<std::uint8_t>>& operands) {
    const std::vector<wire::ByteView> views(operands.begin(), operands.end());
    std::vector<std::uint8_t> result(operands.front().size());
    REQUIRE(!reduce(op, dtype, views, result));
    return result;
}

bool same(const SmallType& type, unsigned left, unsigned right) {
    return left == right || (std::isnan(value_of(type, left)) && std::isnan(value_of(type, right)));
}

}  // namespace

TEST_CASE("8-bit floats: sums and products of all pairs are computed in f32 and rounded once") {
    std::vector<std::vector<std::uint8_t>> pairs(2, std::vector<std::uint8_t>(65536));
    for (std::size_t i = 0; i < 65536; ++i) {
        pairs[0][i] = static_cast<std::uint8_t>(i >> 8);
        pairs[1][i] = static_cast<std::uint8_t>(i);
    }
    for (const SmallType& type : {kE4, kE5}) {
        const auto sums = reduce_codes(Op::kSum, type.dtype, pairs);
        const auto products = reduce_codes(Op::kProd, type.dtype, pairs);
        std::size_t different = 0;
        for (std::size_t i = 0; i < 65536; ++i) {
            const auto left = static_cast<float>(value_of(type, pairs[0][i]));
            const auto right = static_cast<float>(value_of(type, pairs[1][i]));
            different += same(type, sums[i], nearest(type, left + right)) ? 0 : 1;
            different += same(type, products[i], nearest(type, left * right)) ? 0 : 1;
        }
        CHECK(different == 0);
    }
}

TEST_CASE("8-bit floats: long sums are rounded at their end alone") {
    std::mt19937_64 random(3);
    for (const SmallType& type : {kE4, kE5}) {
        std::vector<std::vector<std::uint8_t>> operands(9, std::vector<std::uint8_t>(1031));
        for (auto& operand : operands) {
            for (auto& code : operand) code = static_cast<std::uint8_t>(random());
        }
        const auto sums = reduce_codes(Op::kSum, type.dtype, operands);
        std::size_t different = 0;
        for (std::size_t i = 0; i < sums.size(); ++i) {
            float sum = 0;
            for (const auto& operand : operands) {
                sum += static_cast<float>(value_of(type, operand[i]));
            }
            different += same(type, sums[i], nearest(type, sum)) ? 0 : 1;
        }
        CHECK(different == 0);
    }
}

TEST_CASE("8-bit floats: overflow becomes infinity, or NaN in a format without infinity") {
    const auto sum = [](DType dtype, std::uint8_t left, std::uint8_t right) {
        return reduce_codes(Op::kSum, dtype, {{left}, {right}}).front();
    };
    CHECK(sum(DType::kE5m2, 0x7b, 0x7b) == 0x7c);
    CHECK(sum(DType::kE5m2, 0xfb, 0xfb) == 0xfc);
    CHECK(sum(DType::kE5m2, 0x7c, 0x01) == 0x7c);
    CHECK(std::isnan(value_of(kE5, sum(DType::kE5m2, 0x7c, 0xfc))));
    CHECK(sum(DType::kE4m3fn, 0x7e, 0x7e) == 0x7f);
    CHECK((sum(DType::kE4m3fn, 0xfe, 0xfe) & 0x7f) == 0x7f);
    CHECK((sum(DType::kE4m3fn, 0x7f, 0x01) & 0x7f) == 0x7f);
    CHECK(sum(DType::kE4m3fn, 0x7e, 0x01) == 0x7e);
}

}  // namespace innet::reduction
