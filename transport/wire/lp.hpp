#pragma once
// Link packets (NDNLPv2): hop-by-hop fields of an Interest or a Data.

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/wire/tlv.hpp"

namespace innet::wire {

inline constexpr std::size_t kMaxPitTokenSize = 32;

/// NackReason numbers: NFD's, and innet's own from 200.
enum class NackReason : std::uint8_t {
    kNone = 0,
    kCongestion = 50,
    kDuplicate = 100,
    kNoRoute = 150,
    kNoSlot =
        200,  ///< innet: this node has no free reduction slot; evaluate the expression yourself
    kNoRule = 201,     ///< innet: this node has no reduction rule for that interval
    kForbidden = 202,  ///< innet: the name is of a job that the requester's link has no part in
    kNoData = 203,     ///< innet: the queried node does not have the object
};

struct FragmentInfo {
    std::uint64_t sequence = 0;
    std::uint64_t index = 0;
    std::uint64_t count = 1;
};

struct LpFields;

/// A checked view of a received packet: a bare Interest or Data, or an LpPacket around one.
class LpView {
  public:
    static std::optional<LpView> parse(ByteView packet);
    /// A view of a header from `encode_lp_header`, without its payload.
    static std::optional<LpView> parse_header(ByteView header);

    /// The Interest or Data element (or a piece of one, see `fragment()`); empty for an idle
    /// packet.
    ByteView payload() const { return payload_; }
    ByteView pit_token() const { return pit_token_; }
    std::uint64_t congestion_mark() const { return congestion_mark_; }
    std::optional<NackReason> nack() const { return nack_; }
    /// Hold's value: the label of the late producer, e.g. `3`. `held()`: whether it is present.
    bool held() const { return held_; }
    ByteView hold_missing() const { return hold_missing_; }
    /// Of a hello: whether its sender receives packets of this node.
    std::optional<bool> hello() const { return hello_; }
    std::optional<FragmentInfo> fragment() const { return fragment_; }
    /// The packet's number on the link, which its receiver acknowledges.
    std::optional<std::uint64_t> tx_sequence() const { return tx_sequence_; }
    bool has_acks() const { return !acks_.empty(); }
    /// Calls `function(number)` for each TxSequence that the packet acknowledges.
    template <typename Function>
    void for_each_ack(Function&& function) const {
        for (Reader reader(acks_); !reader.empty();) {
            const auto element = reader.next();
            if (!element || element->type == kLpFragment) return;
            if (element->type == kLpAck) function(*read_nonnegative(element->value));
        }
    }
    /// All header fields but acknowledgements, to be encoded again.
    LpFields fields() const;

  private:
    bool read_fields(Reader reader);
    bool read_header_field(const Element& element);
    bool payload_fits_header() const;

    ByteView payload_;
    ByteView pit_token_;
    ByteView hold_missing_;
    ByteView acks_;  ///< the header from the first acknowledgement on
    std::uint64_t congestion_mark_ = 0;
    std::optional<NackReason> nack_;
    std::optional<FragmentInfo> fragment_;
    std::optional<bool> hello_;
    std::optional<std::uint64_t> tx_sequence_;
    bool held_ = false;
};

/// Link headers for one outgoing packet.
struct LpFields {
    ByteView pit_token;
    std::uint64_t congestion_mark = 0;
    std::optional<NackReason> nack;
    std::optional<ByteView> hold_missing;
    std::optional<FragmentInfo> fragment;
    std::optional<bool> hello;  ///< without a payload
    std::optional<std::uint64_t> tx_sequence;

    bool empty() const {
        return pit_token.empty() && congestion_mark == 0 && !nack && !hold_missing && !fragment &&
               !hello && !tx_sequence;
    }
};

/// Encodes the LpPacket header up to and including the Fragment element's type and length, so that
/// the payload follows it on the wire without a copy. Bytes written, or 0 when they do not fit.
std::size_t encode_lp_header(const LpFields& fields, std::size_t payload_size,
                             std::span<std::uint8_t> buffer);

/// Size of an idle packet that acknowledges `count` packets.
std::size_t acknowledgement_size(std::size_t count);
/// Encodes it; `buffer` has that size.
void encode_acknowledgement(std::span<const std::uint64_t> numbers, std::span<std::uint8_t> buffer);

}  // namespace innet::wire
