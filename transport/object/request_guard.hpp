#pragma once
// Authenticates requests that are encoded in object names, and admits each to be executed once
// (docs/protocol.md, "Requests").

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/security/hmac_sha256.hpp"
#include "transport/security/segment_tagger.hpp"
#include "transport/time.hpp"
#include "transport/wire/name.hpp"

namespace innet {

/// Proof of a request: a component of its name, in hexadecimal.
struct RequestProof {
    std::uint64_t session = 0;  ///< of the receiver
    std::uint64_t sender = 0;   ///< random number of the requester's process
    std::uint32_t number = 0;   ///< ascending in a session
    security::SegmentTag tag{};

    /// The digits before the tag.
    static constexpr std::size_t kNumberDigits = 16 + 16 + 8;
    static constexpr std::size_t kDigits = kNumberDigits + 2 * security::kSegmentTagSize;

    /// Nothing when the component has other characters or another length.
    static std::optional<RequestProof> parse(wire::ByteView component);
};

/// The tag as a proof has it.
std::string digits_of(const security::SegmentTag& tag);

/// Computes tags of requests: of their names as text, without the tag. Confined to one thread.
class RequestTagger {
  public:
    /// `key` is not empty.
    explicit RequestTagger(wire::ByteView key) : function_(key) {}

    security::SegmentTag tag(wire::ByteView text);

  private:
    security::HmacSha256 function_;
};

/// The numbers of a sender that have been used.
class NumberWindow {
  public:
    /// Whether the number is too old to tell.
    bool is_past(std::uint32_t number) const {
        return number < highest_ && highest_ - number >= kSize;
    }
    /// False when the number was used before.
    bool use(std::uint32_t number);

  private:
    static constexpr std::uint32_t kSize = 1U << 14U;
    static constexpr std::uint32_t kWordBits = 64;

    static std::uint64_t bit_of(std::uint32_t number) {
        return std::uint64_t{1} << number % kWordBits;
    }
    std::uint64_t& word_of(std::uint32_t number) { return words_[number % kSize / kWordBits]; }

    std::vector<std::uint64_t> words_ = std::vector<std::uint64_t>(kSize / kWordBits);
    std::uint32_t highest_ = 0;
};

/// Requests are of a session of their receiver, which is another one when the receiver starts, and
/// later from time to time: nobody can keep a request back to deliver it much later, and what is
/// remembered of senders is bounded. Confined to one thread, except `session`.
class RequestGuard {
  public:
    /// `requests` is the prefix of all requests: the requester's name, the proof and the verb
    /// follow. `key` is not empty. `session` is the first session's random number.
    RequestGuard(const wire::Name& requests, wire::ByteView key, std::uint64_t session)
        : place_(requests.view().size() + 1), tagger_(key), session_(session) {}

    /// Whether a holder of the key sent the request, in this session and not too long ago. A
    /// request with the verb `session`, for its number, may be of any session.
    bool admits(wire::NameView request, TimePoint now);
    /// Whether to execute a request that `admits` has just accepted: false when it was begun
    /// before.
    bool begins(wire::NameView request);
    /// Thread-safe.
    std::uint64_t session() const { return session_.load(); }

    static constexpr Duration kSessionTime = std::chrono::seconds(60);
    static constexpr std::size_t kMaxSenders = 1024;

  private:
    struct Request {
        RequestProof proof;
        bool is_for_session = false;
    };

    std::optional<Request> parse(wire::NameView name) const;
    /// The name as text, without the tag; nothing when text would not tell it from another name.
    std::optional<wire::ByteView> text_of(wire::NameView name);
    bool is_authentic(wire::NameView name, const RequestProof& proof);
    void begin_session();

    std::size_t place_;  ///< of the proof, among the components
    RequestTagger tagger_;
    std::vector<std::uint8_t> text_;  ///< kept for its capacity
    std::atomic<std::uint64_t> session_;
    std::optional<TimePoint> session_began_;
    std::unordered_map<std::uint64_t, NumberWindow> senders_;
};

}  // namespace innet
