#pragma once
// Creates the faces that management requests: connections and peers by URI.

#include <functional>
#include <string>
#include <vector>

#include "switch_emulator/driver/face_uri.hpp"
#include "switch_emulator/driver/file_descriptor.hpp"
#include "switch_emulator/driver/listeners.hpp"
#include "switch_emulator/management/face_factory.hpp"

namespace innet::driver {

/// Queues requests, and executes them in `run_pending`, between two packets.
class SocketFaceFactory final : public management::FaceFactory {
  public:
    SocketFaceFactory(LinkTable& links, Listeners& listeners, int epoll_fd);

    void create(const management::FaceRequest& request,
                std::function<void(management::FaceCreation)> done) override;
    bool destroy(FaceId face) override;
    bool set_persistency(FaceId face, management::FacePersistency persistency) override;
    bool set_congestion_marking(FaceId face, const port::CongestionMarkerOptions& options) override;
    std::optional<management::FaceDescription> describe(FaceId face) const override;
    std::vector<std::string> channels() const override { return listeners_.uris(); }

    static bool is_tag(std::uint64_t tag) { return (tag & ~kNumberMask) == kTagBit; }
    /// A pending connection was established, or failed.
    void on_event(std::uint64_t tag, TimePoint now);
    void run_pending(TimePoint now);
    TimePoint next_deadline() const;

  private:
    static constexpr std::uint64_t kTagBit = std::uint64_t{1} << 33U;
    static constexpr std::uint64_t kNumberMask = 0xffff'ffff;
    using Done = std::function<void(management::FaceCreation)>;

    struct PendingCreation {
        management::FaceRequest request;
        Done done;
    };
    struct Connecting {
        std::uint32_t number = 0;
        FileDescriptor fd;
        FaceUri remote;
        management::FacePersistency persistency;
        Done done;
        TimePoint deadline;
    };

    void make(PendingCreation& creation, TimePoint now);
    management::FaceCreation make_udp(const FaceUri& remote,
                                      management::FacePersistency persistency, TimePoint now);
    void start_connecting(const FaceUri& remote, PendingCreation& creation, TimePoint now);
    management::FaceCreation finish_connecting(Connecting& connecting, TimePoint now);
    /// The open face that leads there.
    std::optional<FaceId> face_to(const std::string& remote_uri) const;

    LinkTable& links_;
    Listeners& listeners_;
    int epoll_fd_;
    std::vector<PendingCreation> requested_;
    std::vector<FaceNumber> destroyed_;
    std::vector<Connecting> connecting_;
    std::uint32_t next_number_ = 0;
};

}  // namespace innet::driver
