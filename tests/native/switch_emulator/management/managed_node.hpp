#pragma once
// A node with its management, asked by hand as a client would.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "switch_emulator/management/management.hpp"
#include "tests/native/support/elements.hpp"
#include "tests/native/switch_emulator/forwarding/switch_under_test.hpp"

namespace innet::testing {

/// What a client reads from the answer to a command.
struct Response {
    std::uint64_t code = 0;
    std::string text;
    management::ControlParameters body;
};

/// Faces by URI without sockets: what is asked for is made when the test says so.
class FakeFaceFactory final : public management::FaceFactory {
  public:
    void create(const management::FaceRequest& request,
                std::function<void(management::FaceCreation)> done) override {
        requested.push_back(request);
        waiting.push_back(std::move(done));
    }
    bool destroy(FaceId face) override {
        destroyed.push_back(face);
        return may_destroy;
    }
    bool set_persistency(FaceId, management::FacePersistency persistency) override {
        persistencies.push_back(persistency);
        return persistency != management::FacePersistency::kOnDemand;
    }
    std::optional<management::FaceDescription> describe(FaceId face) const override {
        return management::FaceDescription{
            .remote_uri = face % 2 == 0 ? "unix:///run/nfd/nfd.sock" : "udp4://127.0.0.1:6363",
            .local_uri = "fd://" + std::to_string(face),
            .persistency = management::FacePersistency::kPersistent,
            .link_type = management::LinkType::kPointToPoint,
            .mtu = std::nullopt,
            .marking = marking};
    }
    bool set_congestion_marking(FaceId, const port::CongestionMarkerOptions& options) override {
        if (marking) marking = options;
        return marking.has_value();
    }
    std::vector<std::string> channels() const override { return {"unix:///run/nfd/nfd.sock"}; }

    std::vector<management::FaceRequest> requested;
    std::vector<std::function<void(management::FaceCreation)>> waiting;
    std::vector<FaceId> destroyed;
    std::vector<management::FacePersistency> persistencies;
    bool may_destroy = true;
    std::optional<port::CongestionMarkerOptions> marking;
};

/// The wall clock when a managed node begins, and the time in python-ndn's commands.
inline constexpr std::uint64_t kWallTimeMs = 1'700'000'000'000;

/// Faces 0 to 7 are local and foreign, face 8 is far away.
class ManagedNode {
  public:
    static constexpr FaceId kFarFace = 8;

    explicit ManagedNode(const management::ManagementOptions& options = default_options());

    static management::ManagementOptions default_options();

    void receive(FaceId face, const test::Bytes& packet);
    /// The answer to a packet that is answered at once.
    Response command(FaceId face, const test::Bytes& packet);
    /// A command as today's clients send it, signed by its digest, with a time of its own.
    Response command(FaceId face, std::string_view verb,
                     const management::ControlParameters& parameters);
    test::Bytes signed_command(std::string_view verb,
                               const management::ControlParameters& parameters);
    /// The whole dataset, fetched segment by segment.
    test::Bytes dataset(FaceId face, std::string_view uri);
    Response response(FaceId face);
    /// As `prefix>face/cost`, for clients' routes.
    std::vector<std::string> routes();

    SwitchUnderTest node{0};
    FakeFaceFactory factory;
    management::Management management;

  private:
    std::uint64_t signature_time_ms_ = kWallTimeMs;
};

/// An element that is a number.
test::Bytes number(std::uint32_t type, std::uint64_t value);

management::ControlParameters named(std::string_view uri);

/// An Interest for `prefix` and the digest of these parameters, signed by DigestSha256 with this
/// time and nonce.
test::Bytes digest_signed_interest(const wire::Name& prefix, const test::Bytes& parameters,
                                   std::uint64_t time_ms, std::uint64_t nonce);

}  // namespace innet::testing
