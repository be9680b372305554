// Integers of all sizes, bits, truth values and complex numbers.

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "switch_emulator/reduction/formats/dense/kernels.hpp"
#include "switch_emulator/reduction/formats/registry.hpp"

namespace innet::reduction {

namespace {

template <typename T>
struct Column {
    bool may_carry = false;
    std::vector<T> values;
    bool operator==(const Column&) const = default;
};

/// Reduces one element per operand, in the middle of longer tensors of zeros.
template <typename T>
Column<T> reduce_column(Op op, DType dtype, const std::vector<T>& column) {
    constexpr std::size_t kElements = 700;
    constexpr std::size_t kAt = 600;
    std::vector<std::vector<T>> operands(column.size(), std::vector<T>(kElements));
    std::vector<wire::ByteView> views;
    for (std::size_t k = 0; k < column.size(); ++k) {
        operands[k][kAt] = column[k];
        views.emplace_back(reinterpret_cast<const std::uint8_t*>(operands[k].data()),
                           kElements * sizeof(T));
    }
    std::vector<T> result(kElements);
    const bool may_carry = reduce(
        op, dtype, views, {reinterpret_cast<std::uint8_t*>(result.data()), kElements * sizeof(T)});
    CHECK(result.front() == T{});
    return {may_carry, {result[kAt]}};
}

template <typename T>
constexpr DType dtype_of() {
    constexpr std::size_t kLog2 = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    constexpr auto kFirst = std::is_signed_v<T> ? DType::kI8 : DType::kU8;
    return static_cast<DType>(static_cast<std::size_t>(kFirst) + kLog2);
}

}  // namespace

TEST_CASE_TEMPLATE("integers of every size wrap around at their limits", T, std::int8_t,
                   std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
                   std::uint32_t, std::uint64_t) {
    constexpr DType kType = dtype_of<T>();
    constexpr T kHighest = std::numeric_limits<T>::max();
    constexpr T kLowest = std::numeric_limits<T>::min();
    constexpr auto kHalf = static_cast<T>(kHighest / 2);
    const auto value = [](T expected) { return Column<T>{false, {expected}}; };
    const auto carried = [](T expected) { return Column<T>{true, {expected}}; };
    const auto run = [](Op op, std::vector<T> column) {
        return reduce_column<T>(op, kType, column);
    };
    CHECK(run(Op::kSum, {kHalf, kHalf, 1}) == value(kHighest));
    CHECK(run(Op::kSum, {kHighest, 0, 0, 0, 0}) == value(kHighest));
    CHECK(run(Op::kSum, {kHighest, 1}) == carried(kLowest));
    CHECK(run(Op::kSum, {1, kHighest}) == carried(kLowest));
    CHECK(run(Op::kProd, {kHighest, 1, 1}) == value(kHighest));
    CHECK(run(Op::kProd, {kHighest, kHighest}) == value(1));
    CHECK(run(Op::kProd, {kHighest, 0}) == value(0));
    CHECK(run(Op::kMin, {kHighest, kLowest, 1}) == value(kLowest));
    CHECK(run(Op::kMax, {kLowest, kHighest, 1}) == value(kHighest));
    if constexpr (std::is_signed_v<T>) {
        CHECK(run(Op::kSum, {kLowest, -1}) == carried(kHighest));
        CHECK(run(Op::kSum, {kLowest, kHighest}) == value(-1));
        CHECK(run(Op::kProd, {kLowest, -1}) == value(kLowest));
        CHECK(run(Op::kProd, {kHighest, -1}) == value(static_cast<T>(-kHighest)));
    } else {
        CHECK(run(Op::kProd, {kHighest, kHighest, kHighest}) == value(kHighest));
    }
    CHECK(run(Op::kBand, {kHighest, 6, 3}) == value(2));
    CHECK(run(Op::kBor, {kLowest, 6, 3}) == value(static_cast<T>(kLowest | 7)));
    CHECK(run(Op::kBxor, {kLowest, kHighest, 5, 5, kLowest}) == value(kHighest));
}

TEST_CASE("booleans: any non-zero byte is true, results are 0 or 1") {
    const auto run = [](Op op, std::vector<std::uint8_t> column) {
        return reduce_column<std::uint8_t>(op, DType::kBool, column).values.front();
    };
    for (const Op op : {Op::kSum, Op::kMax, Op::kBor}) {
        CHECK(run(op, {0, 0}) == 0);
        CHECK(run(op, {0, 2, 0}) == 1);
        CHECK(run(op, {1, 1, 1, 1, 1}) == 1);
    }
    for (const Op op : {Op::kProd, Op::kMin, Op::kBand}) {
        CHECK(run(op, {1, 4, 255}) == 1);
        CHECK(run(op, {1, 1, 0}) == 0);
    }
    CHECK(run(Op::kBxor, {1, 2}) == 0);
    CHECK(run(Op::kBxor, {4, 2, 255}) == 1);
    CHECK(run(Op::kBxor, {128}) == 1);
}

TEST_CASE_TEMPLATE("complex numbers have sums and products, step by step", T, float, double) {
    struct Number {
        T real = 0;
        T imaginary = 0;
        bool operator==(const Number&) const = default;
    };
    const DType dtype = sizeof(T) == 4 ? DType::kC64 : DType::kC128;
    const auto sum = reduce_column<Number>(Op::kSum, dtype, {{1, 2}, {3, -5}, {10, 0.5}});
    CHECK(sum.values.front() == Number{14, T(-2.5)});
    const auto product = reduce_column<Number>(Op::kProd, dtype, {{1, 2}, {3, -5}, {0, 2}});
    CHECK(product.values.front() == Number{-2, 26});
    // Rounded after each product: a fused step would leave the error of 1/3 times 3 behind.
    const T third = T(1) / 3;
    volatile T square = third * third;
    const auto exact = reduce_column<Number>(Op::kProd, dtype, {{third, 1}, {third, square}});
    CHECK(exact.values.front().real == 0);
}

TEST_CASE("a format exists for supported operations of a type only") {
    CHECK(find_format("sum.f8e4m3fn") != nullptr);
    CHECK(find_format("bxor.bool") != nullptr);
    CHECK(find_format("prod.c128") != nullptr);
    CHECK(find_format("sum.u64") == find_format("sum.u64"));
    for (const auto* kind : {"band.f32", "bxor.f8e5m2", "min.c64", "max.c128", "bor.c64", "avg.f32",
                             "sum.f8", "sum", "", ".", "sum.", ".f32", "sum.f32."}) {
        CAPTURE(kind);
        CHECK(find_format(kind) == nullptr);
    }
    const Format& format = *find_format("sum.c128");
    CHECK(format.has_fixed_size());
    const std::vector<std::uint8_t> bytes(40);
    CHECK(format.find_fault(bytes) == "which is no whole number of elements");
    CHECK(!format.find_fault(wire::ByteView(bytes).first(32)));
    CHECK(!format.find_fault({}));
}

}  // namespace innet::reduction
