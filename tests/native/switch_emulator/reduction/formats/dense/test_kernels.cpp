#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "switch_emulator/reduction/formats/dense/kernels.hpp"

namespace innet::reduction {

namespace {

constexpr std::array kOps{Op::kSum, Op::kMin, Op::kMax, Op::kProd};

/// IEEE binary16 by the book, in double arithmetic.
double f16_value(std::uint16_t bits) {
    const int exponent = (bits >> 10) & 31;
    const double mantissa = bits & 0x3ff;
    const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
    if (exponent == 31) {
        return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                             : std::numeric_limits<double>::quiet_NaN();
    }
    return sign *
           (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

std::uint16_t f16_bits(float value) {
    const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
    const double size = std::fabs(static_cast<double>(value));
    if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00);
    if (std::isinf(value)) return static_cast<std::uint16_t>(sign | 0x7c00);
    const int exponent = size == 0 ? -14 : std::max(-14, std::ilogb(size));
    // In units of the last place, rounded to nearest even.
    const auto units = static_cast<long>(std::nearbyint(std::ldexp(size, 10 - exponent)));
    const long bits = units + (static_cast<long>(exponent + 14) << 10);
    return static_cast<std::uint16_t>(sign | std::min(bits, 0x7c00L));
}

float bf16_value(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t bf16_bits(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto truncated = static_cast<std::uint16_t>(bits >> 16);
    if (std::isnan(value)) return static_cast<std::uint16_t>(truncated | 0x40);
    const std::uint32_t rest = bits & 0xffff;
    const bool up = rest > 0x8000 || (rest == 0x8000 && (truncated & 1) != 0);
    return static_cast<std::uint16_t>(truncated + (up ? 1 : 0));
}

/// One step as NumPy does it for floats.
template <typename T>
T float_step(Op op, T left, T right) {
    switch (op) {
        case Op::kSum:
            return left + right;
        case Op::kProd:
            return left * right;
        case Op::kMin:
            if (std::isnan(left) || std::isnan(right)) return std::isnan(left) ? left : right;
            return left < right ? left : right;
        case Op::kMax:
            if (std::isnan(left) || std::isnan(right)) return std::isnan(left) ? left : right;
            return left > right ? left : right;
        default:
            break;
    }
    return left;
}

template <typename T>
T from_bytes(const std::uint8_t* bytes) {
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

/// Equal bits, or both NaN of the type.
bool same_float(DType dtype, const std::uint8_t* left, const std::uint8_t* right) {
    if (std::memcmp(left, right, element_size(dtype)) == 0) return true;
    switch (dtype) {
        case DType::kF32:
            return std::isnan(from_bytes<float>(left)) && std::isnan(from_bytes<float>(right));
        case DType::kF64:
            return std::isnan(from_bytes<double>(left)) && std::isnan(from_bytes<double>(right));
        case DType::kF16:
            return std::isnan(f16_value(from_bytes<std::uint16_t>(left))) &&
                   std::isnan(f16_value(from_bytes<std::uint16_t>(right)));
        case DType::kBf16:
            return std::isnan(bf16_value(from_bytes<std::uint16_t>(left))) &&
                   std::isnan(bf16_value(from_bytes<std::uint16_t>(right)));
        default:
            return false;
    }
}

template <typename T>
void store(std::uint8_t* bytes, T value) {
    std::memcpy(bytes, &value, sizeof value);
}

/// Element `i` of a reduction of floats, by the plainest code there is.
void float_reference(Op op, DType dtype, const std::vector<wire::ByteView>& operands, std::size_t i,
                     std::uint8_t* result) {
    const std::size_t at = i * element_size(dtype);
    const auto fold = [&](auto value_of) {
        auto value = value_of(operands[0].data() + at);
        for (std::size_t k = 1; k < operands.size(); ++k) {
            value = float_step(op, value, value_of(operands[k].data() + at));
        }
        return value;
    };
    switch (dtype) {
        case DType::kF32:
            return store(result, fold(from_bytes<float>));
        case DType::kF64:
            return store(result, fold(from_bytes<double>));
        case DType::kF16:
            return store(result, f16_bits(fold([](const std::uint8_t* bytes) {
                             return static_cast<float>(f16_value(from_bytes<std::uint16_t>(bytes)));
                         })));
        default:
            return store(result, bf16_bits(fold([](const std::uint8_t* bytes) {
                             return bf16_value(from_bytes<std::uint16_t>(bytes));
                         })));
    }
}

/// Operands of random bytes, each at an odd place of its own buffer.
struct RandomOperands {
    RandomOperands(std::mt19937_64& random, std::size_t count, std::size_t size) {
        for (std::size_t k = 0; k < count; ++k) {
            auto& buffer = buffers.emplace_back(size + 17);
            for (auto& byte : buffer) byte = static_cast<std::uint8_t>(random());
            views.push_back(wire::ByteView(buffer).subspan(1 + k % 16, size));
        }
    }
    std::vector<std::vector<std::uint8_t>> buffers;
    std::vector<wire::ByteView> views;
};

template <typename T>
struct Values {
    bool may_carry;
    std::vector<T> values;
};

template <typename T>
Values<T> reduce_values(Op op, DType dtype, const std::vector<std::vector<T>>& operands) {
    std::vector<wire::ByteView> views;
    for (const auto& operand : operands) {
        views.emplace_back(reinterpret_cast<const std::uint8_t*>(operand.data()),
                           operand.size() * sizeof(T));
    }
    Values<T> reduced{false, std::vector<T>(operands[0].size())};
    reduced.may_carry = reduce(op, dtype, views,
                               {reinterpret_cast<std::uint8_t*>(reduced.values.data()),
                                reduced.values.size() * sizeof(T)});
    return reduced;
}

template <typename T>
std::uint64_t carry_of_values(DType dtype, const std::vector<std::vector<T>>& operands) {
    const auto bytes_of = [](const std::vector<T>& values) {
        return wire::ByteView(reinterpret_cast<const std::uint8_t*>(values.data()),
                              values.size() * sizeof(T));
    };
    std::vector<wire::ByteView> views;
    for (const auto& operand : operands) views.push_back(bytes_of(operand));
    return carry_of(dtype, views, bytes_of(reduce_values(Op::kSum, dtype, operands).values));
}

}  // namespace

TEST_CASE(
    "float reductions equal the scalar expression to the bit, for any count, size and place") {
    std::mt19937_64 random(7);
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBf16}) {
        for (const Op op : kOps) {
            for (const std::size_t operands : {1U, 2U, 3U, 4U, 5U, 7U, 8U, 9U, 17U}) {
                for (const std::size_t elements : {1U, 15U, 511U, 512U, 1031U}) {
                    const std::size_t size = elements * element_size(dtype);
                    const RandomOperands input(random, operands, size);
                    std::vector<std::uint8_t> result(size);
                    REQUIRE(!reduce(op, dtype, input.views, result));
                    std::size_t different = 0;
                    for (std::size_t i = 0; i < elements; ++i) {
                        std::array<std::uint8_t, 8> expected{};
                        float_reference(op, dtype, input.views, i, expected.data());
                        const auto* actual = result.data() + i * element_size(dtype);
                        different += same_float(dtype, actual, expected.data()) ? 0 : 1;
                    }
                    CAPTURE(static_cast<int>(dtype));
                    CAPTURE(static_cast<int>(op));
                    CAPTURE(operands);
                    CAPTURE(elements);
                    CHECK(different == 0);
                }
            }
        }
    }
}

TEST_CASE("operands are added from left to right") {
    const auto sum = [](std::vector<std::vector<float>> operands) {
        return reduce_values(Op::kSum, DType::kF32, operands).values.front();
    };
    CHECK(sum({{1e8F}, {-1e8F}, {1.0F}}) == 1.0F);
    CHECK(sum({{1.0F}, {1e8F}, {-1e8F}}) == 0.0F);
    CHECK(sum({{1}, {1}, {1}, {1}, {1}, {1e8F}, {-1e8F}, {1}, {1}, {1}}) == 11.0F);
}

TEST_CASE("every f16 and bf16 value passes through unchanged") {
    std::vector<std::uint16_t> all(65536);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
    for (const DType dtype : {DType::kF16, DType::kBf16}) {
        const auto reduced = reduce_values<std::uint16_t>(Op::kSum, dtype, {all});
        std::size_t different = 0;
        for (std::size_t i = 0; i < all.size(); ++i) {
            const auto* actual = reinterpret_cast<const std::uint8_t*>(&reduced.values[i]);
            const auto* expected = reinterpret_cast<const std::uint8_t*>(&all[i]);
            different += same_float(dtype, actual, expected) ? 0 : 1;
        }
        CHECK(different == 0);
    }
}

TEST_CASE("f16 and bf16 are rounded once, to nearest even") {
    // 2048 + 1 lies between two f16 numbers; rounding after each step would lose both ones.
    const auto f16 = [](std::vector<float> values) {
        std::vector<std::vector<std::uint16_t>> operands;
        for (const float value : values) operands.push_back({f16_bits(value)});
        const auto sum = reduce_values(Op::kSum, DType::kF16, operands).values.front();
        return f16_value(sum);
    };
    CHECK(f16({2048, 1}) == 2048);
    CHECK(f16({2050, 1}) == 2052);
    CHECK(f16({2048, 1, 1}) == 2050);
    CHECK(f16({65504, 15}) == 65504);
    CHECK(f16({65504, 16}) == std::numeric_limits<double>::infinity());
    CHECK(f16({-65504, -65504}) == -std::numeric_limits<double>::infinity());
    CHECK(f16({65504, 65504, -65504}) == 65504);
    CHECK(f16({std::ldexp(1.0F, -24), std::ldexp(1.0F, -24)}) == std::ldexp(1.0, -23));
    const auto bf16 = [](std::vector<float> values) {
        std::vector<std::vector<std::uint16_t>> operands;
        for (const float value : values) operands.push_back({bf16_bits(value)});
        return bf16_value(reduce_values(Op::kSum, DType::kBf16, operands).values.front());
    };
    CHECK(bf16({256, 1}) == 256);
    CHECK(bf16({258, 1}) == 260);
    CHECK(bf16({256, 1, 1}) == 258);
}

TEST_CASE_TEMPLATE("NaN wins a minimum and a maximum on either side; zeros keep NumPy's sign", T,
                   float, double) {
    const DType dtype = sizeof(T) == 4 ? DType::kF32 : DType::kF64;
    const T nan = std::numeric_limits<T>::quiet_NaN();
    const std::vector<T> left(40, nan);
    const std::vector<T> right(40, 1);
    for (const Op op : {Op::kMin, Op::kMax}) {
        for (const auto& operands : {std::vector{left, right}, std::vector{right, left}}) {
            for (const T value : reduce_values(op, dtype, operands).values)
                CHECK(std::isnan(value));
        }
        const std::vector<std::vector<T>> zeros{{T{0}, -T{0}}, {-T{0}, T{0}}};
        const auto reduced = reduce_values(op, dtype, zeros).values;
        CHECK(std::signbit(reduced[0]));
        CHECK(!std::signbit(reduced[1]));
    }
}

TEST_CASE("of zeros with both signs the right operand is the minimum, in narrow types too") {
    const std::vector<std::vector<std::uint16_t>> zeros{{0x0000, 0x8000}, {0x8000, 0x0000}};
    const std::vector<std::vector<std::uint8_t>> small_zeros{{0x00, 0x80}, {0x80, 0x00}};
    for (const Op op : {Op::kMin, Op::kMax}) {
        CHECK(reduce_values(op, DType::kF16, zeros).values == zeros[1]);
        CHECK(reduce_values(op, DType::kE5m2, small_zeros).values == small_zeros[1]);
    }
}

TEST_CASE("integers are reduced modulo 2^n, and sums have a carry when they leave their type") {
    using I = std::int32_t;
    constexpr I kLargest = std::numeric_limits<I>::max();
    constexpr I kSmallest = std::numeric_limits<I>::min();
    const auto check = [](Op op, std::vector<I> column, I expected, bool carries = false) {
        // The column under test at the end of a longer tensor of ones.
        std::vector<std::vector<I>> operands;
        for (const I value : column) {
            operands.emplace_back(600, 1);
            operands.back().back() = value;
        }
        const auto reduced = reduce_values(op, DType::kI32, operands);
        CHECK(reduced.may_carry == carries);
        CHECK(reduced.values.back() == expected);
        if (op == Op::kSum) CHECK((carry_of_values(DType::kI32, operands) != 0) == carries);
    };
    check(Op::kSum, {kLargest, 0}, kLargest);
    check(Op::kSum, {kLargest, 1}, kSmallest, true);
    check(Op::kSum, {kLargest, kLargest, -kLargest}, kLargest);
    check(Op::kSum, {kSmallest, -1}, kLargest, true);
    check(Op::kSum, {kSmallest, kSmallest}, 0, true);
    check(Op::kProd, {65536, 32768}, kSmallest);
    check(Op::kProd, {65536, 32768, -1}, kSmallest);
    check(Op::kProd, {kLargest, kLargest}, 1);
    check(Op::kProd, {kLargest, kLargest, kLargest, kLargest, 0}, 0);
    check(Op::kMin, {3, kSmallest, 7}, kSmallest);
    check(Op::kMax, {3, kLargest, 7}, kLargest);
}

TEST_CASE("i64: what leaves the type on the way and comes back has no carry") {
    using I = std::int64_t;
    constexpr I kLargest = std::numeric_limits<I>::max();
    constexpr I kSmallest = std::numeric_limits<I>::min();
    const auto sum = [](std::vector<std::vector<I>> operands) {
        return std::pair(reduce_values(Op::kSum, DType::kI64, operands).values,
                         carry_of_values(DType::kI64, operands) != 0);
    };
    const auto of = [](std::vector<I> values, bool carries) { return std::pair(values, carries); };
    CHECK(sum({{kLargest - 1, kSmallest}, {1, kLargest}}) == of({kLargest, -1}, false));
    CHECK(sum({{kLargest}, {1}}) == of({kSmallest}, true));
    CHECK(sum({{kSmallest}, {-1}}) == of({kLargest}, true));
    CHECK(sum({{kLargest}, {1}, {-1}}) == of({kLargest}, false));
    // One element goes up, and another one down.
    CHECK(sum({{kLargest, kSmallest}, {1, -1}}) == of({kSmallest, kLargest}, true));
    const auto product = [](std::vector<std::vector<I>> operands) {
        return reduce_values(Op::kProd, DType::kI64, operands).values.front();
    };
    CHECK(product({{kSmallest}, {-1}}) == kSmallest);
    CHECK(product({{I{1} << 32}, {I{1} << 32}}) == 0);
    CHECK(product({{I{1} << 32}, {I{1} << 30}}) == I{1} << 62);
}

TEST_CASE("the carries of partial sums are together that of the whole") {
    std::mt19937_64 random(7);
    for (int round = 0; round < 200; ++round) {
        std::vector<std::vector<std::uint64_t>> operands(8, std::vector<std::uint64_t>(5));
        for (auto& operand : operands) {
            for (auto& value : operand) value = random();
        }
        const auto middle = operands.begin() + 1 + round % 7;
        const std::vector left(operands.begin(), middle);
        const std::vector right(middle, operands.end());
        const auto values = [](const auto& part) {
            return reduce_values(Op::kSum, DType::kU64, part).values;
        };
        const std::vector halves{values(left), values(right)};
        CHECK(values(halves) == values(operands));
        CHECK(carry_of_values(DType::kU64, left) + carry_of_values(DType::kU64, right) +
                  carry_of_values(DType::kU64, halves) ==
              carry_of_values(DType::kU64, operands));
    }
}

TEST_CASE("a carry anywhere in a large tensor is found") {
    for (const std::size_t at : {0U, 511U, 512U, 1030U}) {
        std::vector<std::vector<std::int64_t>> operands(9, std::vector<std::int64_t>(1031, 1));
        operands[8][at] = std::numeric_limits<std::int64_t>::max();
        CHECK(reduce_values(Op::kSum, DType::kI64, operands).may_carry);
        CHECK(carry_of_values(DType::kI64, operands) != 0);
        CHECK(!reduce_values(Op::kMax, DType::kI64, operands).may_carry);
    }
}

}  // namespace innet::reduction
