#pragma once
// Interest packets (NDN Packet Format v0.3, section 3).

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/time.hpp"
#include "transport/wire/name.hpp"
#include "transport/wire/tlv.hpp"

namespace innet::wire {

inline constexpr Duration kDefaultInterestLifetime = std::chrono::seconds(4);

/// A longer InterestLifetime counts as this one: every pending Interest takes memory until its time
/// is over. A requester that waits longer retransmits its Interest.
inline constexpr Duration kMaxInterestLifetime = std::chrono::seconds(60);

struct InterestFields;

/// A checked view of an Interest; accessors cannot fail.
class InterestView {
  public:
    /// Encodes into `buffer`, and gives what `parse` would of the bytes written. Nothing when they
    /// do not fit, or `parse` would refuse them: the name is empty, or has a digest of parameters
    /// that are not there.
    static std::optional<InterestView> encode(const InterestFields& fields,
                                              std::span<std::uint8_t> buffer);
    /// Nothing when malformed: unknown critical elements, elements out of order, an empty name, a
    /// nonce that is not four bytes, more than one digest, and so on.
    static std::optional<InterestView> parse(ByteView packet);

    ByteView whole() const { return whole_; }
    NameView name() const { return name_; }
    bool can_be_prefix() const { return can_be_prefix_; }
    bool must_be_fresh() const { return must_be_fresh_; }
    std::optional<std::uint32_t> nonce() const { return nonce_; }
    /// At most `kMaxInterestLifetime`.
    Duration lifetime() const { return lifetime_; }
    std::optional<std::uint8_t> hop_limit() const { return hop_limit_; }
    /// First delegation of the ForwardingHint; empty when there is none.
    NameView forwarding_hint() const { return hint_; }
    bool has_parameters() const { return !parameters_portion_.empty(); }
    /// Value of ApplicationParameters; empty, too, when there are none.
    ByteView parameters() const;
    /// The bytes that the name's ParametersSha256Digest covers: from the ApplicationParameters
    /// element to the end of the packet (security::parameters_digest_holds). `InterestSignature`
    /// reads the signature in them.
    ByteView parameters_portion() const { return parameters_portion_; }
    /// Value of the element AttachedRoots; empty if the Interest lacks it.
    ByteView attached_roots() const { return attached_roots_; }
    /// Whether it has the element AcceptsDraft.
    bool accepts_draft() const { return accepts_draft_; }
    /// Offset of the HopLimit's value byte in `whole()`, 0 when there is none: a forwarder
    /// decrements a copy in place.
    std::size_t hop_limit_offset() const { return hop_limit_offset_; }

  private:
    bool read_element(const Element& element);

    ByteView whole_;
    NameView name_;
    NameView hint_;
    ByteView parameters_portion_;
    ByteView attached_roots_;
    std::optional<std::uint32_t> nonce_;
    Duration lifetime_ = kDefaultInterestLifetime;
    std::optional<std::uint8_t> hop_limit_;
    std::size_t hop_limit_offset_ = 0;
    bool can_be_prefix_ = false;
    bool must_be_fresh_ = false;
    bool accepts_draft_ = false;
};

/// The fields of an Interest to encode.
struct InterestFields {
    NameView name;
    NameView forwarding_hint;  ///< one delegation; empty for none
    std::uint32_t nonce = 0;
    Duration lifetime = kDefaultInterestLifetime;
    bool can_be_prefix = false;
    bool must_be_fresh = false;
    std::optional<std::uint8_t> hop_limit = std::nullopt;
    ByteView attached_roots = {};  ///< empty for none
    bool accepts_draft = false;
    /// ApplicationParameters and what follows it (interest_parameters.hpp), whose digest the name
    /// has; empty for none.
    ByteView parameters_portion = {};
};

/// Encodes into `buffer`; the bytes written, or 0 where `InterestView::encode` gives nothing.
std::size_t encode_interest(const InterestFields& fields, std::span<std::uint8_t> buffer);

}  // namespace innet::wire
