#pragma once
// Data packets (NDN Packet Format v0.3, section 4).

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/time.hpp"
#include "transport/wire/name.hpp"
#include "transport/wire/tlv.hpp"

namespace innet::wire {

/// SignatureType numbers. 201 is innet's experimental AES-GMAC under a group key: the
/// first number that NDN leaves unassigned (200 is its Null signature).
enum class SignatureType : std::uint64_t {
    kDigestSha256 = 0,
    kRsa = 1,
    kEcdsaP256 = 3,
    kHmacSha256 = 4,
    kEd25519 = 5,
    kNull = 200,  ///< no signature: a manifest lists the packet's digest, for example
    kGmac = 201,
};

/// ContentType numbers used here.
enum class ContentType : std::uint64_t {
    kBlob = 0,
    kLink = 1,
    kKey = 2,
    kNack = 3,
    kManifest = 1024
};

/// A checked view of a Data packet; accessors cannot fail.
class DataView {
  public:
    /// Nothing when malformed: unknown critical elements, elements out of order, no signature, a
    /// name with an implicit digest, bytes after the packet, and so on.
    static std::optional<DataView> parse(ByteView packet);

    ByteView whole() const { return whole_; }
    NameView name() const { return name_; }
    ContentType content_type() const { return content_type_; }
    Duration freshness() const { return freshness_; }
    std::optional<std::uint64_t> final_segment() const { return final_segment_; }
    ByteView content() const { return content_; }
    SignatureType signature_type() const { return signature_type_; }
    NameView key_name() const {
        return key_name_;
    }  ///< KeyLocator's name; empty when there is none
    /// The signed bytes: from the Name element up to the SignatureValue.
    ByteView signed_portion() const { return signed_portion_; }
    ByteView signature_value() const { return signature_value_; }
    /// Number of elements of the whole tensor (all segments), as its publisher counts them.
    std::optional<std::uint64_t> tensor_elements() const { return tensor_elements_; }
    /// A reduction or publication that failed says so in a signed Data: an ErrorCode, content is
    /// text.
    std::optional<std::uint64_t> tensor_error() const { return tensor_error_; }
    /// The publisher's earlier calls that not every rank waited for, as text; empty: none.
    ByteView earlier_calls() const { return earlier_calls_; }
    /// Of an operation whose sum the publisher fetches: every rank of the interval that the name
    /// has holds all segments of the whole sum below this one.
    std::optional<std::uint64_t> segments_received() const { return segments_received_; }

    /// Of a sum of integers that left its type: what is left out of it, as one number.
    std::optional<std::uint64_t> sum_carry() const { return sum_carry_; }

    /// The packet's implicit digest, if already computed; else empty.
    ByteView implicit_digest() const { return implicit_digest_; }
    /// Stores the digest for later readers of this view. `digest` must outlive the view.
    void set_implicit_digest(ByteView digest) { implicit_digest_ = digest; }

    /// Whether the application that requested the packet has just accepted it by a tag.
    bool is_vouched_for() const { return is_vouched_for_; }
    void set_vouched_for() { is_vouched_for_ = true; }

  private:
    friend struct DataFrame;
    bool read_meta_info(ByteView value);
    bool read_signature_info(ByteView value);

    ByteView whole_;
    NameView name_;
    NameView key_name_;
    ByteView content_;
    ByteView signed_portion_;
    ByteView signature_value_;
    ByteView implicit_digest_;
    bool is_vouched_for_ = false;
    ByteView earlier_calls_;
    Duration freshness_{0};
    std::optional<std::uint64_t> final_segment_;
    std::optional<std::uint64_t> tensor_elements_;
    std::optional<std::uint64_t> tensor_error_;
    std::optional<std::uint64_t> segments_received_;
    std::optional<std::uint64_t> sum_carry_;
    ContentType content_type_ = ContentType::kBlob;
    SignatureType signature_type_ = SignatureType::kDigestSha256;
};

/// What a packet's maker and its sender need of it. The content may lie apart from the rest.
struct DataFrame {
    NameView name;
    NameView key_name;                     ///< empty: there is none
    std::array<ByteView, 3> signed_parts;  ///< the signed portion, in order
    ByteView signature_value;
    std::size_t signature_offset = 0;  ///< in the packet

    /// Of a packet in one piece, or cut before and after its content. Nothing when it is malformed.
    static std::optional<DataFrame> parse(const std::array<ByteView, 3>& parts);

  private:
    static std::optional<DataFrame> parse_around(ByteView head, ByteView content, ByteView tail);
};

/// Why a tensor or a sum cannot be given (value of the TensorError element).
enum class TensorErrorCode : std::uint8_t {
    kMismatch = 1,  ///< ranks called different operations, shapes or types
    kOverflow = 2,  ///< the sum fits in no packet, or a rank's own values left their type
    kAborted = 3,   ///< the publisher gave the operation up
    kFailed = 4,    ///< the publisher's call failed before it contributed
};

/// Everything of a Data packet but its content and signature value.
struct DataFields {
    NameView name;
    ContentType content_type = ContentType::kBlob;
    Duration freshness{0};  ///< 0: element left out
    std::optional<std::uint64_t> final_segment;
    ByteView
        final_component;  ///< FinalBlockId as a whole component, when there is no final_segment
    std::optional<std::uint64_t> tensor_elements;
    std::optional<TensorErrorCode> tensor_error;
    ByteView earlier_calls;  ///< empty: element left out
    std::optional<std::uint64_t> segments_received;
    std::optional<std::uint64_t> sum_carry;
    SignatureType signature_type = SignatureType::kDigestSha256;
    NameView key_name;             ///< empty: no KeyLocator
    ByteView signature_extension;  ///< whole elements after KeyLocator, such as a ValidityPeriod
};

/// A Data packet laid out in a buffer, waiting for its content and its signature.
struct DataLayout {
    std::size_t size = 0;  ///< whole packet; 0 when the buffer was too small
    std::size_t content_offset = 0;
    std::size_t signed_offset = 0;     ///< start of the signed portion (the Name element)
    std::size_t signed_size = 0;       ///< bytes that the signature covers
    std::size_t signature_offset = 0;  ///< start of the signature value's bytes
    std::size_t signature_size = 0;
};

/// Size of the whole packet that `encode_data` lays out.
std::size_t encoded_data_size(const DataFields& fields, std::size_t content_size,
                              std::size_t signature_size);

/// Writes headers and trailers around `content_size` bytes that the caller fills in, and
/// `signature_size` bytes that the signer fills in afterwards.
DataLayout encode_data(const DataFields& fields, std::size_t content_size,
                       std::size_t signature_size, std::span<std::uint8_t> buffer);

}  // namespace innet::wire
