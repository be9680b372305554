#pragma once
// The state of a reduction that waits for its operands, in a slot or parked.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "switch_emulator/reduction/operand_requests.hpp"
#include "switch_emulator/reduction/rule_table.hpp"
#include "transport/buffer/packet_ref.hpp"

namespace innet::reduction {

/// The arrived value of an operand.
struct ArrivedOperand {
    PacketRef content;
    std::optional<std::uint64_t> tensor_elements;
    std::optional<std::uint64_t> final_segment;
    PacketRef earlier_calls;  ///< empty: none are stated
    /// Number of segments of the sum that all its ranks hold; empty: not stated.
    std::optional<std::uint64_t> segments_received;
    std::uint64_t carry = 0;  ///< of a sum of integers (formats/carry.hpp)
};

/// An operand that is already there when its reduction starts.
struct Given {
    std::uint32_t operand = 0;
    ArrivedOperand arrived;
    bool marked = false;  ///< it carried a congestion mark
};

/// An operand of a slot: requested, arrived, or omitted.
struct SlotOperand {
    bool takes_part = true;  ///< false: no rank of its interval is among the name's contributors
    std::optional<ArrivedOperand> arrived;
    std::uint32_t request = kNoPlace;
    bool late = false;  ///< awaited, and its request is late
};

/// A reduction that holds memory.
struct Slot {
    const InstalledRule* rule = nullptr;
    std::vector<SlotOperand> operands;
    std::size_t missing = 0;
    std::size_t late = 0;  ///< operands that are late; a slot with any may be parked
    bool allow_fallback = false;
    bool marked = false;          ///< some operand carried a congestion mark
    bool compares_calls = false;  ///< some operand states earlier calls
    bool goes_ahead = false;      ///< sent ahead: it has no request

    void reset() {
        rule = nullptr;
        operands.clear();
        missing = late = 0;
        allow_fallback = marked = compares_calls = goes_ahead = false;
    }
};

/// A reduction whose slot was preempted while a rank was late: it restarts when that operand
/// arrives.
struct Parked {
    const InstalledRule* rule = nullptr;
    std::uint32_t request = kNoPlace;  ///< of the awaited operand
    std::uint32_t operand = 0;
    bool allow_fallback = false;

    void reset() { *this = Parked{}; }
};

}  // namespace innet::reduction
