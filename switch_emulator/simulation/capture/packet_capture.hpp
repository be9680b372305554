#pragma once
// Writes the packets that cross links into a file for Wireshark and its like.
//
// NDN packets stand in UDP datagrams of port 6363 between the two ends of the link, streams in TCP
// segments between their hosts; node n has the address 10.0.0.0 + n. What is virtual is in the
// lengths, and not in the file.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "switch_emulator/capture/pcapng_file.hpp"
#include "switch_emulator/simulation/capture/packet_observer.hpp"
#include "switch_emulator/simulation/stream/stream_table.hpp"

namespace innet::simulation::capture {

/// One direction of a link.
struct CapturedLink {
    std::string name;  ///< of the interface
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    bool captured = false;
};

class PacketCapture final : public PacketObserver {
  public:
    /// `links` by number; `streams` outlives the capture.
    PacketCapture(int descriptor, std::vector<CapturedLink> links,
                  const stream::StreamTable& streams);

    void on_arrival(Duration when, std::uint32_t link, const OutgoingPacket& packet) override;
    void flush() { file_.flush(); }
    /// False once something could not be written.
    bool good() const { return file_.good(); }

  private:
    /// Of a stream's packet: the nodes at both ends of what it crosses.
    std::array<std::uint32_t, 2> ends(const std::vector<std::uint32_t>& path) const;
    std::vector<std::uint8_t> tcp_headers(const CapturedLink& link, const PacketRef& packet) const;

    innet::capture::PcapngFile file_;
    std::vector<CapturedLink> links_;
    std::vector<std::uint32_t> interfaces_;  ///< by link
    const stream::StreamTable& streams_;
};

}  // namespace innet::simulation::capture
