#pragma once
// Where NDN programs connect to a running node: Unix and TCP listeners, and UDP ports.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "switch_emulator/driver/link_table.hpp"
#include "switch_emulator/driver/stream_listener.hpp"
#include "switch_emulator/driver/udp_port.hpp"

namespace innet::driver {

struct ListenerOptions {
    std::string uri;  ///< see `parse_face_uri`; with port 0 the system chooses one
    mode_t permissions = 0600;
    bool takes_over = false;
    /// UDP: at a port that this process's links may have, too, each at an address of its own.
    bool beside_links = false;
    /// After which a UDP peer that sends nothing is forgotten.
    Duration udp_idle_timeout = std::chrono::minutes(10);
};

/// Confined to the node's thread, but for `open` before the thread starts.
class Listeners {
  public:
    /// Events of listener i carry `tag(i)` as `data.u64`.
    Listeners(LinkTable& links, PacketPool& pool, int epoll_fd);
    Listeners(const Listeners&) = delete;
    Listeners& operator=(const Listeners&) = delete;

    /// The URI, with the port that the system chose; nothing, with `error` set, when it fails.
    std::optional<std::string> open(const ListenerOptions& options, std::string& error);
    /// Refuses new connections.
    void close() { listeners_.clear(); }
    static bool is_tag(std::uint64_t tag) { return (tag & ~kIndexMask) == kTagBit; }
    void on_readable(std::uint64_t tag, TimePoint now);
    /// Adds a face through the UDP port of the peer's address family, at a client's request;
    /// nothing without such a port, or beyond the limits.
    std::optional<FaceId> add_udp_peer(const SocketAddress& peer,
                                       management::FacePersistency persistency, TimePoint now);
    bool has_udp_port(int family) const;
    void on_face_closed(FaceId face);
    TimePoint next_deadline() const { return next_idle_check_; }
    /// Forgets peers that have been idle for too long.
    void on_timer(TimePoint now);
    std::vector<std::string> uris() const;

  private:
    static constexpr std::uint64_t kTagBit = std::uint64_t{1} << 32U;
    static constexpr std::uint64_t kIndexMask = 0xffff;

    /// One of the two.
    struct Listener {
        std::unique_ptr<StreamListener> stream;
        std::unique_ptr<UdpPort> udp;
        Duration udp_idle_timeout{0};
    };

    std::optional<std::string> add(Listener listener, std::string& error);
    void accept(StreamListener& listener, TimePoint now);
    void receive(UdpPort& port, TimePoint now);
    void receive_from(UdpPort& port, const SocketAddress& from, std::vector<PacketRef>& packets,
                      TimePoint now);
    std::optional<FaceId> add_peer(UdpPort& port, const SocketAddress& peer,
                                   management::FacePersistency persistency, TimePoint now);

    LinkTable& links_;
    PacketPool& pool_;
    int epoll_fd_;
    std::vector<Listener> listeners_;
    Duration idle_check_interval_ = std::chrono::seconds(1);
    TimePoint next_idle_check_ = kNever;
};

}  // namespace innet::driver
