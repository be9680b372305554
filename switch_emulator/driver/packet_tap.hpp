#pragma once
// Sends copies of the packets that cross a node's links to an observer in another process.
//
// Each is a message on a Unix socket (SOCK_SEQPACKET): a TapRecord in the machine's byte order,
// then the packet's bytes. The node never waits: it counts and omits packets without room.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "switch_emulator/driver/file_descriptor.hpp"
#include "switch_emulator/forwarding/face.hpp"

namespace innet::driver {

struct TapRecord {
    std::uint64_t time_ns = 0;  ///< since 1970
    std::uint64_t lost = 0;     ///< packets left out so far
    std::uint32_t face = 0;
    std::uint32_t sent = 0;  ///< 1: by this node; 0: it came
};

class PacketTap {
  public:
    /// Connects to the observer that listens at `path` for packets of `faces`. On failure returns
    /// nothing and sets `error`.
    static std::optional<PacketTap> connect(const std::string& path, std::vector<FaceId> faces,
                                            std::string& error);

    void on_received(FaceId face, std::span<const PacketRef> packets);
    void on_sent(FaceId face, std::span<const OutgoingPacket> packets);
    /// True once the observer has disconnected.
    bool closed() const { return closed_; }

  private:
    PacketTap(FileDescriptor socket, std::vector<FaceId> faces)
        : socket_(std::move(socket)), faces_(std::move(faces)) {}

    bool wants(FaceId face) const;
    void copy(FaceId face, bool sent, wire::ByteView header, wire::ByteView payload);

    FileDescriptor socket_;
    std::vector<FaceId> faces_;
    std::uint64_t lost_ = 0;
    bool closed_ = false;
};

}  // namespace innet::driver
