// Fragments of link packets, from several faces, in any order and at any time.

#include "switch_emulator/forwarding/reassembler.hpp"

#include <algorithm>

#include "tests/fuzz/require.hpp"

namespace {

using innet::forwarding::Reassembler;
using innet::fuzz::require;
using innet::wire::ByteView;

constexpr innet::FaceId kFaces = 4;
/// Link headers of one packet, at most.
constexpr std::size_t kMaxHeader = 96;

/// Takes the input apart, from the front.
class Input {
  public:
    explicit Input(ByteView bytes) : rest_(bytes) {}
    bool empty() const { return rest_.empty(); }
    std::uint8_t byte() { return empty() ? std::uint8_t{0} : take(1)[0]; }
    ByteView take(std::size_t size) {
        const ByteView taken = rest_.first(std::min(size, rest_.size()));
        rest_ = rest_.subspan(taken.size());
        return taken;
    }

  private:
    ByteView rest_;
};

/// A well-formed fragment whose numbers and payload the input chooses: most bytes at random are
/// none.
innet::PacketRef fragment_of(Input& input, innet::PacketPool& pool) {
    innet::wire::LpFields fields;
    fields.fragment = {input.byte(), input.byte() % std::uint64_t{70},
                       input.byte() % std::uint64_t{70}};
    fields.pit_token = input.take(input.byte() % (innet::wire::kMaxPitTokenSize + 1));
    const ByteView payload = input.take(input.byte());
    const std::size_t repeats = 1 + input.byte() % 64;  // up to more than a packet may have
    innet::PacketRef packet = pool.allocate(kMaxHeader + payload.size() * repeats);
    const auto room = packet.writable();
    const std::size_t header =
        innet::wire::encode_lp_header(fields, payload.size() * repeats, room.first(kMaxHeader));
    auto end = room.begin() + static_cast<std::ptrdiff_t>(header);
    for (std::size_t i = 0; i < repeats; ++i) end = std::ranges::copy(payload, end).out;
    packet.truncate(header + payload.size() * repeats);
    return packet;
}

void run(Input input, innet::PacketPool& pool) {
    Reassembler reassembler(pool);
    innet::TimePoint now{};
    while (!input.empty()) {
        const std::uint8_t choice = input.byte();
        const auto face = static_cast<innet::FaceId>(choice % kFaces);
        now += std::chrono::milliseconds(choice >> 3U & 7U) * 40;
        if (choice >= 0xf8) {
            reassembler.forget(face);
            continue;
        }
        const bool is_raw = (choice & 4U) != 0;
        const innet::PacketRef packet =
            is_raw ? pool.copy_of(input.take(input.byte())) : fragment_of(input, pool);
        const auto view = innet::wire::LpView::parse(packet.bytes());
        if (!view || !view->fragment()) continue;
        innet::PacketRef whole;
        const auto outcome =
            reassembler.add(face, packet, *view, innet::kMaxForeignPacketBytes, now, whole);
        require(static_cast<bool>(whole) == (outcome == Reassembler::Outcome::kComplete),
                "what is complete is a packet, and nothing else is");
        require(!whole || whole.size() <= innet::kMaxForeignPacketBytes + kMaxHeader,
                "a packet is no larger than others may send");
        require(reassembler.packets() <=
                    std::min(Reassembler::kMaxPackets, kFaces * Reassembler::kMaxPacketsPerFace),
                "each face has a few packets at once");
    }
    reassembler.on_timer(now + Reassembler::kTimeout);
    require(reassembler.packets() == 0, "nothing stays for longer than it may");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    static innet::PacketPool pool;
    run(Input({bytes, size}), pool);
    require(pool.bytes_in_use() == 0, "no fragment is kept by anybody else");
    return 0;
}
