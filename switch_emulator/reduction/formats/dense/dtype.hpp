#pragma once
// Element types and operations of dense tensors, and their names on the wire.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace innet::reduction {

enum class Op : std::uint8_t { kSum, kMin, kMax, kProd, kBand, kBor, kBxor };
inline constexpr std::size_t kOpCount = 7;

enum class DType : std::uint8_t {
    kF32,
    kF64,
    kF16,
    kBf16,
    kE4m3fn,
    kE5m2,
    kC64,
    kC128,
    kBool,
    kI8,
    kI16,
    kI32,
    kI64,
    kU8,
    kU16,
    kU32,
    kU64,
};
inline constexpr std::size_t kDTypeCount = 17;

/// What a type can be reduced with: real numbers have sum, prod, min and max; complex ones sum and
/// prod; integers and truth values everything.
enum class DTypeFamily : std::uint8_t { kReal, kComplex, kInteger, kLogical };

struct DTypeDescription {
    std::string_view name;
    std::size_t size_bytes;
    DTypeFamily family;
};

/// By number of the type.
inline constexpr std::array<DTypeDescription, kDTypeCount> kDTypes{{
    {"f32", 4, DTypeFamily::kReal},
    {"f64", 8, DTypeFamily::kReal},
    {"f16", 2, DTypeFamily::kReal},
    {"bf16", 2, DTypeFamily::kReal},
    {"f8e4m3fn", 1, DTypeFamily::kReal},
    {"f8e5m2", 1, DTypeFamily::kReal},
    {"c64", 8, DTypeFamily::kComplex},
    {"c128", 16, DTypeFamily::kComplex},
    {"bool", 1, DTypeFamily::kLogical},
    {"i8", 1, DTypeFamily::kInteger},
    {"i16", 2, DTypeFamily::kInteger},
    {"i32", 4, DTypeFamily::kInteger},
    {"i64", 8, DTypeFamily::kInteger},
    {"u8", 1, DTypeFamily::kInteger},
    {"u16", 2, DTypeFamily::kInteger},
    {"u32", 4, DTypeFamily::kInteger},
    {"u64", 8, DTypeFamily::kInteger},
}};

constexpr const DTypeDescription& description(DType dtype) {
    return kDTypes[static_cast<std::size_t>(dtype)];
}

constexpr std::size_t element_size(DType dtype) { return description(dtype).size_bytes; }

constexpr bool is_bitwise(Op op) { return op == Op::kBand || op == Op::kBor || op == Op::kBxor; }

constexpr bool supports(DType dtype, Op op) {
    switch (description(dtype).family) {
        case DTypeFamily::kReal:
            return !is_bitwise(op);
        case DTypeFamily::kComplex:
            return op == Op::kSum || op == Op::kProd;
        case DTypeFamily::kInteger:
        case DTypeFamily::kLogical:
            return true;
    }
    return false;
}

/// `sum`, `min`, `max`, `prod`, `band`, `bor` or `bxor`; nothing for any other word.
std::optional<Op> parse_op(std::string_view text);
/// A type by its name; nothing for any other word.
std::optional<DType> parse_dtype(std::string_view text);

}  // namespace innet::reduction
