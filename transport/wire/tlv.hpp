#pragma once
// Type-length-value encoding of NDN Packet Format v0.3, section 1: VAR-NUMBERs in shortest form.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace innet::wire {

using ByteView = std::span<const std::uint8_t>;

/// TLV-TYPE numbers (NDN Packet Format v0.3, NDNLPv2, naming conventions rev 3, innet's own).
enum Type : std::uint32_t {
    kInterest = 0x05,
    kData = 0x06,
    kName = 0x07,
    kImplicitSha256Digest = 0x01,
    kParametersSha256Digest = 0x02,
    kGenericComponent = 0x08,
    kCanBePrefix = 0x21,
    kMustBeFresh = 0x12,
    kForwardingHint = 0x1e,
    kNonce = 0x0a,
    kInterestLifetime = 0x0c,
    kHopLimit = 0x22,
    kApplicationParameters = 0x24,
    kInterestSignatureInfo = 0x2c,
    kInterestSignatureValue = 0x2e,
    kMetaInfo = 0x14,
    kContentType = 0x18,
    kFreshnessPeriod = 0x19,
    kFinalBlockId = 0x1a,
    kContent = 0x15,
    kSignatureInfo = 0x16,
    kSignatureValue = 0x17,
    kSignatureType = 0x1b,
    kKeyLocator = 0x1c,
    kKeyDigest = 0x1d,
    // Inside InterestSignatureInfo.
    kSignatureNonce = 0x26,
    kSignatureTime = 0x28,
    kSignatureSeqNum = 0x2a,
    // Naming conventions rev 3.
    kKeywordComponent = 32,
    kSegmentComponent = 50,
    kByteOffsetComponent = 52,
    kVersionComponent = 54,
    kTimestampComponent = 56,
    kSequenceNumComponent = 58,
    // Reflexive Name Segment of draft-irtf-icnrg-reflexive-forwarding, which leaves NDN's number
    // open: the one that its demonstration for NFD uses.
    kReflexiveComponent = 59,
    // NDNLPv2.
    kLpPacket = 0x64,
    kLpFragment = 0x50,
    kLpSequence = 0x51,
    kLpFragIndex = 0x52,
    kLpFragCount = 0x53,
    kLpPitToken = 0x62,
    kLpNack = 0x0320,
    kLpNackReason = 0x0321,
    kLpCongestionMark = 0x0340,
    kLpAck = 0x0344,
    kLpTxSequence = 0x0348,
    // innet: "the producer of this Interest's Data is known and has not published yet". A multiple
    // of four inside NDNLPv2's 800..959 range, so a forwarder that does not know it may ignore it.
    kLpHold = 0x0390,
    // innet, likewise: keep-alive; its value: whether the peer is received.
    kLpHello = 0x0394,
    // NDN certificates v2, inside SignatureInfo.
    kValidityPeriod = 0xfd,
    // innet: tensor metadata in MetaInfo's application range (128..252).
    kTensorElements = 0x80,
    kTensorError = 0x82,
    kEarlierCalls = 0x94,
    kSegmentsReceived = 0x96,
    kSumCarry = 0x9c,
    // innet: in an Interest, which any node may ignore (docs/protocol.md, "Requests", "Drafts").
    kAttachedRoots = 0x98,
    kAcceptsDraft = 0x9a,
    // innet: inside the Content of a manifest.
    kManifestSegments = 0x84,
    kManifestFanOut = 0x86,
    kManifestDigests = 0x88,
    kManifestObjectBytes = 0x8a,
    kManifestSegmentBytes = 0x8c,
    kManifestObject = 0x8e,
    kManifestTags = 0x90,
    kManifestRootTag = 0x92,
};

/// Bytes that `number` takes as a VAR-NUMBER.
constexpr std::size_t var_number_size(std::uint64_t number) {
    return number < 253 ? 1 : number <= 0xffff ? 3 : number <= 0xffff'ffff ? 5 : 9;
}

/// Bytes that `number` takes as a NonNegativeInteger (1, 2, 4 or 8).
constexpr std::size_t nonnegative_size(std::uint64_t number) {
    return number <= 0xff ? 1 : number <= 0xffff ? 2 : number <= 0xffff'ffff ? 4 : 8;
}

/// Takes a VAR-NUMBER off the front of `bytes`; nothing when it is truncated or longer than needed.
std::optional<std::uint64_t> read_var_number(ByteView& bytes);

/// Bytes of a whole element whose value takes `length` bytes.
constexpr std::size_t element_size(std::uint32_t type, std::size_t length) {
    return var_number_size(type) + var_number_size(length) + length;
}

/// One element: its type, its value, and the whole of it with type and length.
struct Element {
    std::uint32_t type = 0;
    ByteView value;
    ByteView whole;
};

/// Reads elements from bytes; every access is checked, nothing is copied.
class Reader {
  public:
    explicit Reader(ByteView bytes) : rest_(bytes) {}

    bool empty() const { return rest_.empty(); }
    ByteView rest() const { return rest_; }

    /// The next element, or nothing when the bytes are truncated, type or length is not in its
    /// shortest form, or the type is 0 or above 32 bits. Does not advance past a malformed element.
    std::optional<Element> next() {
        // Nearly every element has a type and a length of one byte each.
        if (rest_.size() < 2 || rest_[0] == 0 || rest_[0] >= 253 || rest_[1] >= 253) [[unlikely]] {
            return next_long();
        }
        const std::size_t whole_size = std::size_t{2} + rest_[1];
        if (whole_size > rest_.size()) return std::nullopt;
        const Element element{rest_[0], rest_.subspan(2, rest_[1]), rest_.first(whole_size)};
        rest_ = rest_.subspan(whole_size);
        return element;
    }

    /// The next element without taking it.
    std::optional<Element> peek() const {
        Reader copy = *this;
        return copy.next();
    }

  private:
    std::optional<Element> next_long();

    ByteView rest_;
};

/// The only element of `bytes`: nothing when it is malformed or when bytes follow it.
std::optional<Element> read_only_element(ByteView bytes);

/// Value of a NonNegativeInteger, or nothing when its length is not 1, 2, 4 or 8.
std::optional<std::uint64_t> read_nonnegative(ByteView value);

/// True when an unknown element of this type must be refused (types up to 31 and odd ones).
constexpr bool is_critical(std::uint32_t type) { return type <= 31 || (type & 1U) != 0; }

/// Writes elements forward into a caller's buffer. Never writes past its end: `ok()` turns false
/// and everything later is ignored, so that one check at the end is enough.
class Writer {
  public:
    explicit Writer(std::span<std::uint8_t> buffer) : buffer_(buffer) {}

    bool ok() const { return ok_; }
    std::size_t size() const { return size_; }
    ByteView written() const { return buffer_.first(size_); }

    void var_number(std::uint64_t number);
    void bytes(ByteView bytes);
    void header(std::uint32_t type, std::size_t length);
    void element(std::uint32_t type, ByteView value);
    void nonnegative_element(std::uint32_t type, std::uint64_t number);
    /// Reserves `length` bytes for the caller to fill; empty when they do not fit.
    std::span<std::uint8_t> reserve(std::size_t length);

  private:
    std::span<std::uint8_t> buffer_;
    std::size_t size_ = 0;
    bool ok_ = true;
};

}  // namespace innet::wire
