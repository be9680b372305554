#pragma once
// What a reducer must know about the contents that it combines: one `Format` for each
// `<op>.<type>` that a name can say (docs/protocol.md, Names).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "transport/wire/tlv.hpp"

namespace innet::reduction {

/// Most operands of one reduction: as many small integers can be added in registers twice as wide.
inline constexpr std::size_t kMaxOperands = std::size_t{1} << 15U;

enum class ReduceStatus : std::uint8_t {
    kOk,
    kTooLarge,  ///< the result does not fit into one packet; only with results of varying size
};

struct Reduced {
    ReduceStatus status = ReduceStatus::kOk;
    std::size_t size = 0;  ///< bytes written, when `status` is kOk
    /// What the sums of integers left out, as one number (carry.hpp); 0: nothing.
    std::uint64_t carry = 0;
};

/// Stateless; one object serves all reductions of its kind, from several threads.
class Format {
  public:
    virtual ~Format() = default;

    /// The fault of `content` as an operand, as the end of a sentence that begins with its size
    /// ("which is no whole number of elements"); nothing when it can be reduced. Contents arrive
    /// from the network, and this function validates them.
    virtual std::optional<std::string> find_fault(wire::ByteView content) const = 0;

    /// All operands of a reduction have the same size, and so has their result. Otherwise sizes
    /// differ freely.
    virtual bool has_fixed_size() const = 0;

    /// Room in bytes that a result may need at most. There are 1 to kMaxOperands operands.
    virtual std::size_t max_result_size(std::span<const wire::ByteView> operands) const = 0;

    /// Reduces the operands, in their order, into `result`. Operands are without fault and of equal
    /// size if that is fixed; `result` overlaps none of them. It has `max_result_size` bytes, or
    /// fewer if so many fit in no packet: kTooLarge when they do not do. The same operands give the
    /// same bytes on every processor. Unless kOk, the result's bytes are unspecified.
    virtual Reduced reduce(std::span<const wire::ByteView> operands,
                           std::span<std::uint8_t> result) const = 0;
};

}  // namespace innet::reduction
