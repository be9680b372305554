#include "transport/wire/lp.hpp"

#include "transport/wire/text.hpp"

namespace innet::wire {

namespace {

/// Of a Sequence, TxSequence or Ack.
constexpr std::size_t kSequenceSize = 8;

constexpr bool is_sequence(std::uint32_t type) {
    return type == kLpSequence || type == kLpTxSequence || type == kLpAck;
}

/// Unknown header fields that NDNLPv2 lets a receiver ignore; any other makes it drop the packet.
constexpr bool is_ignorable(std::uint32_t type) {
    return type >= 800 && type <= 959 && (type & 3U) == 0;
}

/// Reason inside a Nack element; unknown numbers count as "no reason".
std::optional<NackReason> read_nack(ByteView value) {
    NackReason reason = NackReason::kNone;
    bool found = false;
    for (Reader reader(value); !reader.empty();) {
        const auto element = reader.next();
        if (!element) return std::nullopt;
        if (element->type != kLpNackReason) {
            if (!is_ignorable(element->type)) return std::nullopt;
            continue;
        }
        const auto number = read_nonnegative(element->value);
        if (!number || found) return std::nullopt;
        found = true;
        if (*number <= 0xff) reason = static_cast<NackReason>(*number);
    }
    return reason;
}

bool is_network_packet(std::uint32_t type) { return type == kInterest || type == kData; }

/// One bit for each header field that may appear only once.
constexpr unsigned field_bit(std::uint32_t type) {
    switch (type) {
        case kLpSequence:
            return 1U << 0;
        case kLpFragIndex:
            return 1U << 1;
        case kLpFragCount:
            return 1U << 2;
        case kLpPitToken:
            return 1U << 3;
        case kLpNack:
            return 1U << 4;
        case kLpCongestionMark:
            return 1U << 5;
        case kLpHold:
            return 1U << 6;
        case kLpHello:
            return 1U << 7;
        case kLpTxSequence:
            return 1U << 8;
        default:
            return 0;
    }
}

}  // namespace

bool LpView::read_header_field(const Element& element) {
    switch (element.type) {
        case kLpPitToken:
            pit_token_ = element.value;
            return !element.value.empty() && element.value.size() <= kMaxPitTokenSize;
        case kLpNack:
            nack_ = read_nack(element.value);
            return nack_.has_value();
        case kLpHold:
            held_ = true;
            hold_missing_ = element.value;
            return is_label(element.value);
        default:
            break;
    }
    const auto number = read_nonnegative(element.value);
    if (!number || (is_sequence(element.type) && element.value.size() != kSequenceSize))
        return false;
    if (element.type == kLpTxSequence) {
        tx_sequence_ = *number;
        return true;
    }
    if (element.type == kLpCongestionMark) {
        congestion_mark_ = *number;
        return true;
    }
    if (element.type == kLpHello) {
        hello_ = *number != 0;
        return true;
    }
    if (!fragment_) fragment_.emplace();
    if (element.type == kLpSequence) {
        fragment_->sequence = *number;
        return true;
    }
    (element.type == kLpFragIndex ? fragment_->index : fragment_->count) = *number;
    return true;
}

bool LpView::payload_fits_header() const {
    const bool about_interest = nack_.has_value() || held_;
    if (fragment_) return !payload_.empty() && !(about_interest && fragment_->index > 0);
    if (payload_.empty()) return !about_interest;
    const auto packet = read_only_element(payload_);
    if (!packet || !is_network_packet(packet->type)) return false;
    return !about_interest || packet->type == kInterest;
}

bool LpView::read_fields(Reader reader) {
    unsigned seen = 0;
    while (!reader.empty()) {
        const ByteView rest = reader.rest();
        const auto element = reader.next();
        if (!element) return false;
        if (element->type == kLpAck) {
            if (element->value.size() != kSequenceSize) return false;
            if (acks_.empty()) acks_ = rest;
            continue;
        }
        if (element->type == kLpFragment) {
            payload_ = element->value;
            if (payload_.empty() || !reader.empty()) return false;
            break;
        }
        const unsigned bit = field_bit(element->type);
        if (bit == 0) {
            if (!is_ignorable(element->type)) return false;
            continue;
        }
        if ((seen & bit) != 0 || !read_header_field(*element)) return false;
        seen |= bit;
    }
    if (!fragment_) return true;
    if (fragment_->index >= fragment_->count) return false;
    const bool in_pieces = fragment_->count > 1;
    if (!in_pieces) fragment_.reset();
    return !in_pieces || (seen & field_bit(kLpSequence)) != 0;
}

std::optional<LpView> LpView::parse(ByteView packet) {
    const auto outer = read_only_element(packet);
    if (!outer) return std::nullopt;
    LpView view;
    if (is_network_packet(outer->type)) {
        view.payload_ = packet;
        return view;
    }
    if (outer->type != kLpPacket) return std::nullopt;
    if (!view.read_fields(Reader(outer->value)) || !view.payload_fits_header()) return std::nullopt;
    return view;
}

std::optional<LpView> LpView::parse_header(ByteView header) {
    ByteView rest = header;
    const auto type = read_var_number(rest);
    const auto length = type == kLpPacket ? read_var_number(rest) : std::nullopt;
    if (!length || *length < rest.size()) return std::nullopt;
    const std::uint64_t payload_size = *length - rest.size();
    const std::size_t fragment_header =
        payload_size == 0 ? 0 : var_number_size(kLpFragment) + var_number_size(payload_size);
    LpView view;
    if (fragment_header > rest.size()) return std::nullopt;
    if (!view.read_fields(Reader(rest.first(rest.size() - fragment_header)))) return std::nullopt;
    return view;
}

LpFields LpView::fields() const {
    LpFields fields;
    fields.pit_token = pit_token_;
    fields.congestion_mark = congestion_mark_;
    fields.nack = nack_;
    if (held_) fields.hold_missing = hold_missing_;
    fields.fragment = fragment_;
    fields.hello = hello_;
    fields.tx_sequence = tx_sequence_;
    return fields;
}

namespace {

std::size_t number_size(std::uint32_t type, std::uint64_t number) {
    return element_size(type, nonnegative_size(number));
}

std::size_t nack_value_size(NackReason reason) {
    if (reason == NackReason::kNone) return 0;
    return number_size(kLpNackReason, static_cast<std::uint64_t>(reason));
}

std::size_t header_fields_size(const LpFields& fields) {
    std::size_t size = 0;
    if (fields.fragment) {
        size += element_size(kLpSequence, kSequenceSize) +
                number_size(kLpFragIndex, fields.fragment->index) +
                number_size(kLpFragCount, fields.fragment->count);
    }
    if (!fields.pit_token.empty()) size += element_size(kLpPitToken, fields.pit_token.size());
    if (fields.nack) size += element_size(kLpNack, nack_value_size(*fields.nack));
    if (fields.congestion_mark != 0) size += number_size(kLpCongestionMark, fields.congestion_mark);
    if (fields.tx_sequence) size += element_size(kLpTxSequence, kSequenceSize);
    if (fields.hold_missing) size += element_size(kLpHold, fields.hold_missing->size());
    if (fields.hello) size += number_size(kLpHello, *fields.hello ? 1 : 0);
    return size;
}

void write_sequence(Writer& writer, std::uint32_t type, std::uint64_t number) {
    std::array<std::uint8_t, kSequenceSize> sequence{};
    for (std::size_t i = 0; i < kSequenceSize; ++i) {
        sequence[i] = static_cast<std::uint8_t>(number >> (8 * (kSequenceSize - 1 - i)));
    }
    writer.element(type, sequence);
}

void write_fragment_info(Writer& writer, const FragmentInfo& fragment) {
    write_sequence(writer, kLpSequence, fragment.sequence);
    writer.nonnegative_element(kLpFragIndex, fragment.index);
    writer.nonnegative_element(kLpFragCount, fragment.count);
}

void write_nack(Writer& writer, NackReason reason) {
    writer.header(kLpNack, nack_value_size(reason));
    if (reason == NackReason::kNone) return;
    writer.nonnegative_element(kLpNackReason, static_cast<std::uint64_t>(reason));
}

}  // namespace

std::size_t encode_lp_header(const LpFields& fields, std::size_t payload_size,
                             std::span<std::uint8_t> buffer) {
    if (fields.pit_token.size() > kMaxPitTokenSize) return 0;
    const std::size_t fragment_size =
        payload_size == 0 ? 0 : element_size(kLpFragment, payload_size);
    Writer writer(buffer);
    writer.header(kLpPacket, header_fields_size(fields) + fragment_size);
    // Fields in the order of their types, which some receivers insist on; the Fragment is last.
    if (fields.fragment) write_fragment_info(writer, *fields.fragment);
    if (!fields.pit_token.empty()) writer.element(kLpPitToken, fields.pit_token);
    if (fields.nack) write_nack(writer, *fields.nack);
    if (fields.congestion_mark != 0) {
        writer.nonnegative_element(kLpCongestionMark, fields.congestion_mark);
    }
    if (fields.tx_sequence) write_sequence(writer, kLpTxSequence, *fields.tx_sequence);
    if (fields.hold_missing) writer.element(kLpHold, *fields.hold_missing);
    if (fields.hello) writer.nonnegative_element(kLpHello, *fields.hello ? 1 : 0);
    if (payload_size != 0) writer.header(kLpFragment, payload_size);
    return writer.ok() ? writer.size() : 0;
}

namespace {

std::size_t acks_size(std::size_t count) { return count * element_size(kLpAck, kSequenceSize); }

}  // namespace

std::size_t acknowledgement_size(std::size_t count) {
    return element_size(kLpPacket, acks_size(count));
}

void encode_acknowledgement(std::span<const std::uint64_t> numbers,
                            std::span<std::uint8_t> buffer) {
    Writer writer(buffer);
    writer.header(kLpPacket, acks_size(numbers.size()));
    for (const std::uint64_t number : numbers) write_sequence(writer, kLpAck, number);
}

}  // namespace innet::wire
