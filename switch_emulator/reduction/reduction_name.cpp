#include "switch_emulator/reduction/reduction_name.hpp"

#include <algorithm>
#include <cassert>
#include <string_view>

#include "switch_emulator/reduction/formats/registry.hpp"
#include "transport/wire/text.hpp"

namespace innet::reduction {

namespace {

using wire::ByteView;
using wire::Element;
using wire::NameView;

constexpr std::size_t kComponentsFromEnd = 4;  // interval, op.dtype, seq, seg

using wire::text_of;

/// `<op>.<dtype>`, and the digits of the set behind it; without digits when there is no set.
struct Kind {
    std::string_view format;
    std::string_view set;
};

/// The format of `<op>.<dtype>.root<rank>`: the root distinguishes calls of different ranks, and
/// nothing of what is computed depends on it.
std::optional<std::string_view> without_root(std::string_view text) {
    constexpr std::string_view kRootMark = ".root";
    const std::size_t mark = text.find(kRootMark);
    if (mark == std::string_view::npos) return text;
    const std::string_view rank = text.substr(mark + kRootMark.size());
    const bool is_number =
        !rank.empty() && rank.find_first_not_of("0123456789") == std::string_view::npos;
    return is_number ? std::optional(text.substr(0, mark)) : std::nullopt;
}

std::optional<Kind> split_kind(std::string_view text) {
    constexpr std::string_view kSetMark = ".of-";
    const std::size_t mark = text.find(kSetMark);
    const auto format = without_root(text.substr(0, mark));
    if (!format) return std::nullopt;
    if (mark == std::string_view::npos) return Kind{*format, {}};
    const std::string_view set = text.substr(mark + kSetMark.size());
    if (!ContributorSet::parse(set)) return std::nullopt;
    return Kind{*format, set};
}

std::optional<std::uint64_t> number_of(const Element& component, std::uint32_t type) {
    if (component.type != type) return std::nullopt;
    return wire::read_nonnegative(component.value);
}

}  // namespace

std::optional<ReductionName> ReductionName::parse(NameView name) {
    const ByteView bytes = name.value();
    if (bytes.size() > kMaxReductionName) return std::nullopt;

    // TLV reads forward only, so the last components are remembered while passing over them.
    std::array<Element, kComponentsFromEnd> last;
    std::size_t components = 0;
    for (wire::Reader reader(bytes); !reader.empty(); ++components) {
        const auto component = reader.next();
        if (!component) return std::nullopt;
        std::shift_left(last.begin(), last.end(), 1);
        last.back() = *component;
    }
    if (components <= kComponentsFromEnd) return std::nullopt;
    const auto& [interval, kind, sequence, segment] = last;

    const auto sequence_number = number_of(sequence, wire::kSequenceNumComponent);
    const auto segment_number = number_of(segment, wire::kSegmentComponent);
    if (!sequence_number || !segment_number || interval.type != wire::kGenericComponent ||
        kind.type != wire::kGenericComponent || interval.whole.size() > kMaxInterval) {
        return std::nullopt;
    }
    const auto parts = split_kind(text_of(kind.value));
    if (!parts) return std::nullopt;
    const Format* format = find_format(parts->format);
    if (format == nullptr) return std::nullopt;

    ReductionName parsed;
    parsed.bytes_ = bytes;
    parsed.interval_size_ = interval.whole.size();
    parsed.group_size_ = static_cast<std::size_t>(interval.whole.data() - bytes.data());
    parsed.set_size_ = parts->set.size();
    // The set is the end of its component.
    parsed.set_offset_ = static_cast<std::size_t>(kind.value.data() - bytes.data()) +
                         kind.value.size() - parts->set.size();
    parsed.segment_size_ = segment.whole.size();
    wire::NameHasher hasher;
    hasher.add(bytes.first(parsed.group_size_ + parsed.interval_size_));
    parsed.rule_hash_ = hasher.hash();
    hasher.add(parsed.after_interval());
    parsed.hash_ = hasher.hash();
    parsed.sequence_ = *sequence_number;
    parsed.segment_ = *segment_number;
    parsed.format_ = format;
    return parsed;
}

ContributorSet ReductionName::contributors() const {
    const auto set = ContributorSet::parse(text_of(bytes_.subspan(set_offset_, set_size_)));
    return set.value_or(
        ContributorSet());  // parsed once already: only without digits is there none
}

ReductionName ReductionName::moved_to(ByteView copy) const {
    assert(copy.size() == bytes_.size());
    ReductionName moved = *this;
    moved.bytes_ = copy;
    return moved;
}

NameView ReductionName::operand(ByteView interval, OperandNameBuffer& buffer) const {
    assert(interval.size() <= kMaxInterval);
    wire::Writer writer(buffer);
    writer.bytes(bytes_.first(group_size_));
    writer.bytes(interval);
    writer.bytes(after_interval());
    return NameView::trusted(writer.written());
}

ReductionName::OperandHash ReductionName::operand_hash(wire::NameHasher operand,
                                                       std::size_t shards) const {
    const ByteView rest = after_interval();
    OperandHash hash;
    operand.add(rest.first(rest.size() - segment_size_));
    hash.publication = operand.hash();
    operand.add(rest.last(segment_size_));
    hash.name = operand.hash();
    hash.segment = segment_;
    hash.shard = static_cast<std::uint32_t>(segment_ % shards);
    return hash;
}

bool is_contribution(ByteView interval_component) {
    wire::Reader reader(interval_component);
    const auto component = reader.next();
    return component && std::ranges::find(component->value, '-') == component->value.end();
}

std::string interval_text(ByteView interval_component) {
    wire::Reader reader(interval_component);
    const auto component = reader.next();
    return component ? std::string(text_of(component->value)) : std::string();
}

}  // namespace innet::reduction
