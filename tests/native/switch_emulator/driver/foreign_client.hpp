#pragma once
// An NDN program at the other end of a real socket, and a node that it connects to.

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "switch_emulator/driver/file_descriptor.hpp"
#include "switch_emulator/driver/node_thread.hpp"

namespace innet::testing {

using Bytes = std::vector<std::uint8_t>;

inline Bytes interest_packet(const std::string& uri, std::uint32_t nonce) {
    Bytes packet(512);
    const auto name = wire::Name::from_uri(uri).value();
    wire::InterestFields fields;
    fields.name = name.view();
    fields.nonce = nonce;
    packet.resize(wire::encode_interest(fields, packet));
    return packet;
}

/// Signed by its digest alone.
Bytes data_packet(const std::string& uri, std::size_t content_bytes = 4);

/// Blocks for ten seconds at most, and then fails its test.
class ForeignClient {
  public:
    /// Connects to what a node's `listen` gave.
    explicit ForeignClient(const std::string& uri);

    void send(const Bytes& bytes);
    /// The next packet, as it came.
    Bytes receive();
    /// Whether the node has hung up.
    bool is_hung_up();
    /// The name in the next packet, which is of this type (inside an LpPacket or not).
    std::string receive_name(std::uint32_t type);
    bool receive_nack();
    int fd() const { return fd_.get(); }

  private:
    bool wait_readable();

    driver::FileDescriptor fd_;
    bool is_stream_ = true;
    Bytes unread_;
};

class ListeningNode {
  public:
    explicit ListeningNode(const std::vector<driver::ListenerOptions>& listeners);

    /// URIs of the listeners, in their order.
    std::vector<std::string> uris;
    driver::NodeThread thread;

    std::vector<driver::LinkStatus> links();
    driver::FaceTableCounters counters();
    /// Memory of packets that the node holds.
    std::size_t packet_bytes_in_use();
    /// Waits until that many foreign faces are open.
    void await_faces(std::size_t count);
    /// The face opened last gets the names below `prefix`.
    void route_to_newest(const std::string& prefix);
    /// Looks again until it holds; fails the test after ten seconds.
    void await(const std::function<bool()>& holds);
};

/// A path for a socket in a directory of its own, which is removed in the end.
class SocketPath {
  public:
    SocketPath();
    ~SocketPath();
    SocketPath(const SocketPath&) = delete;
    SocketPath& operator=(const SocketPath&) = delete;

    std::string path;
    std::string uri() const { return "unix://" + path; }
    bool exists() const;

  private:
    std::string directory_;
};

}  // namespace innet::testing
