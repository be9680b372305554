#include "transport/wire/interest.hpp"

#include <algorithm>

#include "transport/wire/milliseconds.hpp"

namespace innet::wire {

namespace {

/// Position of an element in the order of the specification; 0 for unknown ones.
constexpr int position_of(std::uint32_t type) {
    switch (type) {
        case kName:
            return 1;
        case kCanBePrefix:
            return 2;
        case kMustBeFresh:
            return 3;
        case kForwardingHint:
            return 4;
        case kNonce:
            return 5;
        case kInterestLifetime:
            return 6;
        case kHopLimit:
            return 7;
        case kAttachedRoots:
            return 8;
        case kAcceptsDraft:
            return 9;
        case kApplicationParameters:
            return 10;
        case kInterestSignatureInfo:
            return 11;
        case kInterestSignatureValue:
            return 12;
        default:
            return 0;
    }
}

/// First delegation of a ForwardingHint: one or more Names, none of them empty.
std::optional<NameView> read_forwarding_hint(ByteView value) {
    std::optional<NameView> first;
    for (Reader reader(value); !reader.empty();) {
        const auto element = reader.next();
        if (!element) return std::nullopt;
        if (element->type != kName) {
            if (is_critical(element->type)) return std::nullopt;
            continue;
        }
        const auto name = NameView::parse(element->value);
        if (!name || name->empty()) return std::nullopt;
        if (!first) first = name;
    }
    return first;
}

}  // namespace

bool InterestView::read_element(const Element& element) {
    const ByteView value = element.value;
    switch (element.type) {
        case kCanBePrefix:
            can_be_prefix_ = true;
            return value.empty();
        case kMustBeFresh:
            must_be_fresh_ = true;
            return value.empty();
        case kForwardingHint: {
            const auto hint = read_forwarding_hint(value);
            if (hint) hint_ = *hint;
            return hint.has_value();
        }
        case kNonce:
            if (value.size() != 4) return false;
            nonce_ = static_cast<std::uint32_t>(*read_nonnegative(value));
            return true;
        case kInterestLifetime: {
            const auto lifetime_ms = read_nonnegative(value);
            if (lifetime_ms)
                lifetime_ = std::min(duration_of_ms(*lifetime_ms), kMaxInterestLifetime);
            return lifetime_ms.has_value();
        }
        case kHopLimit:
            if (value.size() != 1) return false;
            hop_limit_ = value[0];
            hop_limit_offset_ = static_cast<std::size_t>(value.data() - whole_.data());
            return true;
        case kAttachedRoots:
            attached_roots_ = value;
            return true;
        case kAcceptsDraft:
            accepts_draft_ = true;
            return true;
        case kApplicationParameters:
            parameters_portion_ = ByteView(element.whole.data(), whole_.data() + whole_.size());
            return true;
        default:
            return true;  // signatures of Interests are the application's to check
    }
}

std::optional<InterestView> InterestView::parse(ByteView packet) {
    const auto interest = read_only_element(packet);
    if (!interest || interest->type != kInterest) return std::nullopt;
    Reader reader(interest->value);
    const auto name_element = reader.next();
    if (!name_element || name_element->type != kName) return std::nullopt;
    const auto checked = check_name(name_element->value);
    if (!checked || checked->name.empty()) return std::nullopt;

    InterestView view;
    view.whole_ = packet;
    view.name_ = checked->name;
    int last_position = position_of(kName);
    while (!reader.empty()) {
        const auto element = reader.next();
        if (!element) return std::nullopt;
        const int position = position_of(element->type);
        if (position <= last_position) {
            // Unknown, repeated or out of order: section 1.3 has us skip it when it is not
            // critical.
            if (is_critical(element->type)) return std::nullopt;
            continue;
        }
        last_position = position;
        if (!view.read_element(*element)) return std::nullopt;
    }
    if (view.has_parameters() != checked->has_parameters_digest) return std::nullopt;
    return view;
}

ByteView InterestView::parameters() const {
    const auto element = Reader(parameters_portion_).next();
    return element ? element->value : ByteView();
}

namespace {

std::size_t hint_size(NameView hint) {
    return hint.empty() ? 0 : element_size(kName, hint.value().size());
}

std::size_t value_size_of(const InterestFields& fields, std::uint64_t lifetime_ms) {
    std::size_t size = element_size(kName, fields.name.value().size()) + element_size(kNonce, 4);
    if (fields.can_be_prefix) size += element_size(kCanBePrefix, 0);
    if (fields.must_be_fresh) size += element_size(kMustBeFresh, 0);
    if (!fields.forwarding_hint.empty()) {
        size += element_size(kForwardingHint, hint_size(fields.forwarding_hint));
    }
    if (fields.lifetime != kDefaultInterestLifetime) {
        size += element_size(kInterestLifetime, nonnegative_size(lifetime_ms));
    }
    if (fields.hop_limit) size += element_size(kHopLimit, 1);
    if (!fields.attached_roots.empty()) {
        size += element_size(kAttachedRoots, fields.attached_roots.size());
    }
    if (fields.accepts_draft) size += element_size(kAcceptsDraft, 0);
    return size + fields.parameters_portion.size();
}

/// Writes the name as an element; the name where it lies now.
NameView write_name(Writer& writer, NameView name) {
    writer.element(kName, name.value());
    return writer.ok() ? NameView::trusted(writer.written().last(name.value().size())) : NameView();
}

}  // namespace

std::optional<InterestView> InterestView::encode(const InterestFields& fields,
                                                 std::span<std::uint8_t> buffer) {
    const auto checked = check_name(fields.name.value());
    if (!checked || fields.name.empty()) return std::nullopt;
    if (checked->has_parameters_digest == fields.parameters_portion.empty()) return std::nullopt;
    const std::uint64_t lifetime_ms = ms_of_duration(fields.lifetime);
    InterestView view;
    Writer writer(buffer);
    writer.header(kInterest, value_size_of(fields, lifetime_ms));
    view.name_ = write_name(writer, fields.name);
    if (fields.can_be_prefix) writer.header(kCanBePrefix, 0);
    if (fields.must_be_fresh) writer.header(kMustBeFresh, 0);
    if (!fields.forwarding_hint.empty()) {
        writer.header(kForwardingHint, hint_size(fields.forwarding_hint));
        view.hint_ = write_name(writer, fields.forwarding_hint);
    }
    const std::array<std::uint8_t, 4> nonce = {static_cast<std::uint8_t>(fields.nonce >> 24),
                                               static_cast<std::uint8_t>(fields.nonce >> 16),
                                               static_cast<std::uint8_t>(fields.nonce >> 8),
                                               static_cast<std::uint8_t>(fields.nonce)};
    writer.element(kNonce, nonce);
    if (fields.lifetime != kDefaultInterestLifetime) {
        writer.nonnegative_element(kInterestLifetime, lifetime_ms);
        view.lifetime_ = std::min(duration_of_ms(lifetime_ms), kMaxInterestLifetime);
    }
    if (fields.hop_limit) {
        writer.element(kHopLimit, ByteView(&*fields.hop_limit, 1));
        view.hop_limit_offset_ = writer.size() - 1;
    }
    if (!fields.attached_roots.empty()) {
        writer.element(kAttachedRoots, fields.attached_roots);
        view.attached_roots_ = writer.written().last(fields.attached_roots.size());
    }
    if (fields.accepts_draft) writer.header(kAcceptsDraft, 0);
    writer.bytes(fields.parameters_portion);
    if (!writer.ok()) return std::nullopt;
    view.whole_ = writer.written();
    view.parameters_portion_ = view.whole_.last(fields.parameters_portion.size());
    view.nonce_ = fields.nonce;
    view.hop_limit_ = fields.hop_limit;
    view.can_be_prefix_ = fields.can_be_prefix;
    view.must_be_fresh_ = fields.must_be_fresh;
    view.accepts_draft_ = fields.accepts_draft;
    return view;
}

std::size_t encode_interest(const InterestFields& fields, std::span<std::uint8_t> buffer) {
    const auto view = InterestView::encode(fields, buffer);
    return view ? view->whole().size() : 0;
}

}  // namespace innet::wire
