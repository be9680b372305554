#include "switch_emulator/reduction/result.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/security/late_mac.hpp"
#include "transport/wire/text.hpp"

namespace innet::reduction {

namespace {

using wire::ByteView;

/// Of sums whose size depends on their operands.
constexpr std::size_t kMaxVaryingBytes = 65536;
// Types, lengths and MetaInfo around name, key name, content and signature; generous.
constexpr std::size_t kDataOverhead = 128;

/// `rank 3 has` or `ranks 0-3 have`, where the verb is for one rank or for several.
std::string ranks_text(const Slot& slot, std::size_t operand,
                       std::pair<const char*, const char*> verb) {
    const std::string ranks = interval_text(slot.rule->operand_interval(operand));
    return ranks.find('-') == std::string::npos ? "rank " + ranks + verb.first
                                                : "ranks " + ranks + verb.second;
}

std::string elements_text(const Slot& slot, std::size_t operand) {
    const auto elements = slot.operands[operand].arrived->tensor_elements;
    if (!elements) {
        return ranks_text(slot, operand, {" does", " do"}) + " not state a number of elements";
    }
    return ranks_text(slot, operand, {" has ", " have "}) + std::to_string(*elements) +
           (*elements == 1 ? " element" : " elements");
}

std::string size_text(const Slot& slot, std::size_t operand, const ReductionName& name) {
    const std::size_t size = slot.operands[operand].arrived->content.size();
    return ranks_text(slot, operand, {" sends ", " send "}) + std::to_string(size) +
           " bytes as segment " + std::to_string(name.segment());
}

std::string_view earlier_calls(const SlotOperand& operand) {
    return wire::text_of(operand.arrived->earlier_calls.bytes());
}

std::string difference(const ReductionName& name, const std::string& left,
                       const std::string& right) {
    return "ranks differ in operation " + std::to_string(name.sequence()) + ": " + left + ", " +
           right;
}

/// A result of `size` bytes stands for more in the proportion in which its operands do.
std::uint64_t virtual_bytes_of(const Slot& slot, std::uint64_t size) {
    std::uint64_t real = 0;
    std::uint64_t beside = 0;
    for (const SlotOperand& operand : slot.operands) {
        if (!operand.takes_part) continue;
        real += operand.arrived->content.size();
        beside += operand.arrived->content.virtual_bytes();
    }
    return beside == 0 || real == 0 ? 0 : beside * size / real;
}

std::size_t first_arrived(const Slot& slot) {
    std::size_t operand = 0;
    while (!slot.operands[operand].arrived) ++operand;
    return operand;
}

/// What the ranks called before, as far as they know it.
ByteView earlier_calls_of(const Slot& slot) {
    if (!slot.compares_calls) return {};
    const auto known = [](const SlotOperand& operand) {
        return operand.arrived && earlier_calls(operand) != wire::kUnknownCalls;
    };
    const auto found = std::ranges::find_if(slot.operands, known);
    return wire::bytes_of(found == slot.operands.end() ? wire::kUnknownCalls
                                                       : earlier_calls(*found));
}

/// Below which all ranks hold the sum, if all of them say so.
std::optional<std::uint64_t> segments_received_by_all(const Slot& slot) {
    std::optional<std::uint64_t> least;
    for (const SlotOperand& operand : slot.operands) {
        if (!operand.takes_part) continue;
        const auto received = operand.arrived->segments_received;
        if (!received) return std::nullopt;
        least = std::min(least.value_or(*received), *received);
    }
    return least;
}

/// The carry of the operands' own sums; nothing when there is none.
std::optional<std::uint64_t> carry_of_operands(const Slot& slot) {
    std::uint64_t carry = 0;
    for (const SlotOperand& operand : slot.operands) {
        if (operand.takes_part) carry += operand.arrived->carry;
    }
    return carry == 0 ? std::nullopt : std::optional(carry);
}

/// Adds the carry of a result to that of its operands; whether that changes the packet.
bool add_carry(wire::DataFields& fields, std::uint64_t carry) {
    if (carry == 0) return false;
    carry += fields.sum_carry.value_or(0);
    fields.sum_carry = carry == 0 ? std::nullopt : std::optional(carry);
    return true;
}

/// The error when ranks of another operand called something else before than those of `latest`. The
/// others agree: the first that knows stands for all.
std::optional<std::string> find_other_calls(const Slot& slot, std::size_t latest) {
    const std::string_view calls = earlier_calls(slot.operands[latest]);
    if (calls == wire::kUnknownCalls) return std::nullopt;
    for (std::size_t other = 0; other < slot.operands.size(); ++other) {
        if (other == latest || !slot.operands[other].arrived) continue;
        const std::string_view theirs = earlier_calls(slot.operands[other]);
        if (theirs == wire::kUnknownCalls) continue;
        if (theirs == calls) return std::nullopt;
        const auto [left, right] = std::minmax(other, latest);
        return wire::earlier_calls_differ(
            ranks_text(slot, left, {"", ""}), earlier_calls(slot.operands[left]),
            ranks_text(slot, right, {"", ""}), earlier_calls(slot.operands[right]));
    }
    return std::nullopt;
}

}  // namespace

std::optional<std::string> find_disagreement(const ReductionName& name, const Slot& slot,
                                             std::size_t latest) {
    const ArrivedOperand& arrived = *slot.operands[latest].arrived;
    if (const auto fault = name.format().find_fault(arrived.content.bytes())) {
        return size_text(slot, latest, name) + " of operation " + std::to_string(name.sequence()) +
               ", " + *fault;
    }
    if (slot.compares_calls) {
        if (auto error = find_other_calls(slot, latest)) return error;
    }
    // The first of those that are there, or the next one when the latest is the first: all that
    // came before the latest agree.
    std::size_t left = first_arrived(slot);
    std::size_t right = latest;
    if (left == latest) {
        for (right = latest + 1; right < slot.operands.size(); ++right) {
            if (slot.operands[right].arrived) break;
        }
        if (right == slot.operands.size()) return std::nullopt;
    }
    const ArrivedOperand& a = *slot.operands[left].arrived;
    const ArrivedOperand& b = *slot.operands[right].arrived;
    if (a.tensor_elements != b.tensor_elements) {
        return difference(name, elements_text(slot, left), elements_text(slot, right));
    }
    if (name.format().has_fixed_size() && a.content.size() != b.content.size()) {
        return difference(name, size_text(slot, left, name), size_text(slot, right, name));
    }
    return std::nullopt;
}

std::string too_large_text(const ReductionName& name) {
    return "the reduction over ranks " + interval_text(name.interval()) + " in operation " +
           std::to_string(name.sequence()) + " fits in no packet; send fewer entries in a segment";
}

ResultBuilder::Outcome ResultBuilder::value(const ReductionName& name, const Slot& slot,
                                            security::Signer& signer) {
    operands_.clear();
    for (const SlotOperand& operand : slot.operands) {
        if (operand.takes_part) operands_.push_back(operand.arrived->content.bytes());
    }
    const ArrivedOperand& first = *slot.operands[first_arrived(slot)].arrived;
    wire::DataFields fields;
    fields.name = name.whole();
    fields.freshness = kResultFreshness;
    fields.final_segment = first.final_segment;
    fields.tensor_elements = first.tensor_elements;
    fields.earlier_calls = earlier_calls_of(slot);
    fields.segments_received = segments_received_by_all(slot);
    fields.sum_carry = carry_of_operands(slot);
    const Format& format = name.format();
    Draft result{signer, {}, {}, {}};
    const ReduceStatus status = format.has_fixed_size() ? draft_fixed(format, fields, result)
                                                        : draft_varying(format, fields, result);
    if (status != ReduceStatus::kOk || !result.packet) return {{}, status};
    result.packet.set_virtual_bytes(virtual_bytes_of(slot, result.content.size()));
    return {sign(std::move(result)), status, fields.sum_carry.has_value()};
}

ReduceStatus ResultBuilder::draft_fixed(const Format& format, wire::DataFields& fields,
                                        Draft& into) {
    encode(fields, operands_.front().size(), into);
    if (!into.packet) return ReduceStatus::kOk;
    const Reduced reduced = format.reduce(operands_, into.content);
    if (!add_carry(fields, reduced.carry)) return reduced.status;
    const PacketRef without = std::move(into.packet);
    const std::span<const std::uint8_t> content = into.content;
    encode(fields, reduced.size, into);
    if (into.packet) std::ranges::copy(content, into.content.begin());
    return reduced.status;
}

ReduceStatus ResultBuilder::draft_varying(const Format& format, wire::DataFields& fields,
                                          Draft& into) {
    varying_.resize(std::min(format.max_result_size(operands_), kMaxVaryingBytes));
    const Reduced reduced = format.reduce(operands_, varying_);
    if (reduced.status != ReduceStatus::kOk) return reduced.status;
    add_carry(fields, reduced.carry);
    encode(fields, reduced.size, into);
    if (!into.packet) return ReduceStatus::kTooLarge;
    std::copy_n(varying_.begin(), reduced.size, into.content.begin());
    return ReduceStatus::kOk;
}

PacketRef ResultBuilder::error(const ReductionName& name, wire::TensorErrorCode code,
                               std::string_view text, security::Signer& signer) {
    wire::DataFields fields;
    fields.name = name.whole();
    fields.tensor_error = code;
    Draft result{signer, {}, {}, {}};
    text = wire::cut_text(text, wire::kMaxErrorText);
    encode(fields, text.size(), result);
    if (!result.packet) return {};
    if (!result.content.empty()) {
        std::memcpy(result.content.data(), text.data(), result.content.size());
    }
    return sign(std::move(result));
}

void ResultBuilder::encode(wire::DataFields fields, std::size_t content_size, Draft& into) {
    fields.signature_type = into.signer.type();
    fields.key_name = into.signer.key_name();
    const std::size_t signature_size = into.signer.signature_size();
    const std::size_t bound = fields.name.value().size() + fields.key_name.value().size() +
                              content_size + signature_size + kDataOverhead;
    into.packet = pool_.allocate(std::min(bound, kMaxPacketBytes));
    into.layout = wire::encode_data(fields, content_size, signature_size, into.packet.writable());
    if (into.layout.size == 0) {
        into.packet = PacketRef();
        return;
    }
    into.content = into.packet.writable().subspan(into.layout.content_offset, content_size);
}

PacketRef ResultBuilder::sign(Draft draft) {
    if (!security::sign_or_defer(draft.packet, draft.layout, draft.signer)) return {};
    draft.packet.truncate(draft.layout.size);
    return std::move(draft.packet);
}

}  // namespace innet::reduction
