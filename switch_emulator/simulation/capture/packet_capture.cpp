#include "switch_emulator/simulation/capture/packet_capture.hpp"

#include <utility>

namespace innet::simulation::capture {
namespace {

constexpr std::uint8_t kUdp = 17;
constexpr std::uint8_t kTcp = 6;
constexpr std::uint16_t kNdnPort = 6363;
constexpr std::uint16_t kFirstStreamPort = 10'000;
constexpr std::uint32_t kStreamPorts = 50'000;
constexpr std::uint16_t kSinkPort = 5001;
constexpr std::size_t kIpBytes = 20;
constexpr std::uint8_t kAckFlag = 0x10;

/// Headers, most significant byte first.
class HeaderWriter {
  public:
    HeaderWriter& put(std::uint64_t number, std::size_t size) {
        for (std::size_t byte = size; byte-- > 0;) {
            bytes_.push_back(static_cast<std::uint8_t>(number >> (8 * byte)));
        }
        return *this;
    }
    HeaderWriter& ethernet(std::uint32_t from, std::uint32_t to) {
        constexpr std::uint64_t kLocal = 0x020000000000ULL;
        return put(kLocal | to, 6).put(kLocal | from, 6).put(0x0800, 2);
    }
    /// `size`: of what follows.
    HeaderWriter& ipv4(std::uint8_t protocol, std::uint32_t from, std::uint32_t to,
                       std::size_t size) {
        const std::size_t begin = bytes_.size();
        constexpr std::uint32_t kNetwork = 10U << 24U;
        put(0x4500, 2).put(kIpBytes + size, 2).put(0x00004000, 4);
        put(64, 1).put(protocol, 1).put(0, 2).put(kNetwork | from, 4).put(kNetwork | to, 4);
        std::uint32_t sum = 0;
        for (std::size_t at = begin; at < bytes_.size(); at += 2) {
            sum += static_cast<std::uint32_t>(bytes_[at] << 8U | bytes_[at + 1]);
        }
        sum = (sum & 0xffffU) + (sum >> 16U);
        sum = ~(sum + (sum >> 16U)) & 0xffffU;
        bytes_[begin + 10] = static_cast<std::uint8_t>(sum >> 8U);
        bytes_[begin + 11] = static_cast<std::uint8_t>(sum);
        return *this;
    }
    std::vector<std::uint8_t> take() { return std::move(bytes_); }

  private:
    std::vector<std::uint8_t> bytes_;
};

}  // namespace

PacketCapture::PacketCapture(int descriptor, std::vector<CapturedLink> links,
                             const stream::StreamTable& streams)
    : file_(descriptor), links_(std::move(links)), streams_(streams) {
    std::uint32_t interface = 0;
    for (const CapturedLink& link : links_) {
        interfaces_.push_back(interface);
        if (link.captured) {
            file_.add_interface(link.name);
            ++interface;
        }
    }
}

void PacketCapture::on_arrival(Duration when, std::uint32_t index, const OutgoingPacket& packet) {
    if (index >= links_.size() || !links_[index].captured) {
        return;
    }
    const CapturedLink& link = links_[index];
    const std::size_t payload_bytes = packet.size();
    if (packet.header_size == 0 && stream::is_stream_packet(packet.payload)) {
        const auto headers = tcp_headers(link, packet.payload);
        const std::span<const std::uint8_t> part(headers);
        file_.add_packet(interfaces_[index], when, {&part, 1},
                         part.size() + packet.payload.virtual_bytes());
        return;
    }
    constexpr std::size_t kUdpBytes = 8;
    const auto headers = HeaderWriter()
                             .ethernet(link.from, link.to)
                             .ipv4(kUdp, link.from, link.to, kUdpBytes + payload_bytes)
                             .put(kNdnPort, 2)
                             .put(kNdnPort, 2)
                             .put(kUdpBytes + payload_bytes, 2)
                             .put(0, 2)  // no check sum, as IPv4 allows
                             .take();
    const std::array<std::span<const std::uint8_t>, 3> parts{headers, packet.header_bytes(),
                                                             packet.payload.bytes()};
    file_.add_packet(interfaces_[index], when, parts, headers.size() + payload_bytes);
}

std::array<std::uint32_t, 2> PacketCapture::ends(const std::vector<std::uint32_t>& path) const {
    return {links_[path.front()].from, links_[path.back()].to};
}

std::vector<std::uint8_t> PacketCapture::tcp_headers(const CapturedLink& link,
                                                     const PacketRef& packet) const {
    const auto segment = stream::parse_data(packet);
    const auto acknowledgement = stream::parse_acknowledgement(packet);
    const std::size_t options = packet.size() - stream::kStandInBytes;
    const std::size_t size = 20 + options + packet.virtual_bytes();
    HeaderWriter headers;
    headers.ethernet(link.from, link.to);
    if ((!segment || segment->stream >= streams_.size()) &&
        (!acknowledgement || acknowledgement->stream >= streams_.size())) {
        return headers.ipv4(kTcp, link.from, link.to, size).take();  // damaged on the way
    }
    const stream::StreamId id = segment ? segment->stream : acknowledgement->stream;
    const stream::Paths& paths = streams_.paths(id);
    const auto [from, to] = ends(segment ? paths.forth : paths.back);
    const std::uint64_t own_port = kFirstStreamPort + id % kStreamPorts;
    headers.ipv4(kTcp, from, to, size);
    headers.put(segment ? own_port : kSinkPort, 2).put(segment ? kSinkPort : own_port, 2);
    headers.put(segment ? segment->sequence : 0, 4);
    headers.put(acknowledgement ? acknowledgement->next : 0, 4);
    headers.put((5 + options / 4) << 4U, 1).put(kAckFlag, 1).put(0xffff, 2).put(0, 4);
    if (options > 0) {
        constexpr std::uint32_t kTwoNopsAndSack = 0x0101050a;
        headers.put(kTwoNopsAndSack, 4);
        headers.put(acknowledgement->sack_begin, 4).put(acknowledgement->sack_end, 4);
    }
    return headers.take();
}

}  // namespace innet::simulation::capture
