#pragma once
// A node fed with packets and times by hand, and what it sent, read back.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "switch_emulator/forwarding/node.hpp"
#include "transport/security/keyring.hpp"
#include "transport/wire/interest.hpp"

namespace innet::testing {

inline wire::Name name(std::string_view uri) { return wire::Name::from_uri(uri).value(); }

inline wire::ByteView bytes(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

inline std::string text(wire::ByteView view) { return {view.begin(), view.end()}; }

/// Remembers what it was told; produces what the test put into `productions`.
class RecordingApplication final : public Application {
  public:
    Production produce(const wire::InterestView& interest, bool for_network, TimePoint) override {
        asked_for_network.push_back(for_network);
        const auto found = productions.find(interest.name().to_uri());
        return found == productions.end() ? Production{} : found->second;
    }
    void on_data(const wire::DataView& data, const PacketRef&, bool marked, TimePoint) override {
        received.push_back(data.name().to_uri());
        contents.push_back(text(data.content()));
        marks.push_back(marked);
        if (when_received) when_received();
    }
    void on_nack(wire::NameView nacked, wire::NackReason reason, TimePoint) override {
        nacks.emplace_back(nacked.to_uri(), reason);
        if (when_nacked) when_nacked();
    }
    void on_hold(wire::NameView held, wire::ByteView missing, TimePoint) override {
        holds.emplace_back(held.to_uri(), text(missing));
    }

    void forget(wire::NameView forgotten_name) override {
        forgotten.push_back(forgotten_name.to_uri());
    }

    const security::Sha256Digest* told_digest(const wire::DataView&) override {
        return told ? &*told : nullptr;
    }
    bool vouches_for(const wire::DataView&) override { return vouches; }

    /// What it says that the digest of any Data is.
    std::optional<security::Sha256Digest> told;
    bool vouches = false;  ///< for every manifest
    std::map<std::string, Production> productions;
    std::vector<bool> asked_for_network;
    std::vector<std::string> forgotten;
    std::vector<std::string> received;
    std::vector<std::string> contents;
    std::vector<bool> marks;
    std::vector<std::pair<std::string, wire::NackReason>> nacks;
    std::vector<std::pair<std::string, std::string>> holds;
    std::function<void()> when_received;
    std::function<void()> when_nacked;
};

/// A packet that left the node.
struct Sent {
    enum class Kind : std::uint8_t { kInterest, kData, kNack, kHold } kind = Kind::kInterest;
    std::string name;
    std::string token;
    std::uint64_t mark = 0;
    std::uint32_t nonce = 0;
    std::optional<std::uint8_t> hop_limit;
    bool must_be_fresh = false;
    bool accepts_draft = false;
    wire::NackReason reason = wire::NackReason::kNone;
    std::string missing;
    std::string content;
    bool is_draft = false;
    std::size_t size = 0;
};

struct InterestOptions {
    std::string hint = {};
    Duration lifetime = std::chrono::seconds(1);
    bool can_be_prefix = false;
    bool must_be_fresh = false;
    std::string token = {};
    bool accepts_draft = false;
    std::optional<std::uint8_t> hop_limit = std::nullopt;
};

class SwitchUnderTest {
  public:
    static forwarding::NodeOptions default_options();

    explicit SwitchUnderTest(std::size_t faces = 9,
                             forwarding::NodeOptions options = default_options(),
                             const FaceOptions& face_options = {});

    PacketRef interest(std::string_view uri, std::uint32_t nonce, const InterestOptions& = {});
    PacketRef data(std::string_view uri, std::string_view content = "value",
                   Duration freshness = Duration(0),
                   std::optional<wire::TensorErrorCode> error = std::nullopt);
    /// A segment of a tensor of f32, complete in itself.
    PacketRef tensor(std::string_view uri, const std::vector<float>& elements);
    /// Signed with a key that is not in the node's keyring.
    PacketRef foreign_data(std::string_view uri, wire::ContentType type = wire::ContentType::kBlob);
    PacketRef with_headers(const PacketRef& packet, const wire::LpFields& fields);
    PacketRef nack(std::string_view uri, std::uint32_t nonce, wire::NackReason reason,
                   const InterestOptions& = {});
    PacketRef hold(std::string_view uri, std::uint32_t nonce, std::string_view missing);

    void receive(FaceId face, const PacketRef& packet) { node.on_packet(face, packet, now); }
    void receive_interest(FaceId face, std::string_view uri, std::uint32_t nonce,
                          const InterestOptions& options = {});
    void wait(Duration duration);
    /// Takes what waits for `face`.
    std::vector<Sent> sent(FaceId face);
    std::size_t sent_everywhere();

    // The pool is the last to go: every PacketRef must be gone before.
    PacketPool pool;
    security::Keyring keyring;
    std::unique_ptr<security::Signer> signer;
    std::unique_ptr<security::Signer> foreign_signer;
    RecordingApplication application;
    forwarding::Node node;
    TimePoint now{std::chrono::hours(1)};

  private:
    PacketRef signed_data(const wire::DataFields& fields, std::string_view content,
                          security::Signer& by);
};

}  // namespace innet::testing
