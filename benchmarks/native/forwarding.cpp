// Processor time of each packet that passes the engine of a star switch, without sockets: eight
// requesters, one root. Per segment, eight Interests come in and one goes out, one Data comes in
// and eight go out.
//
//   forwarding [segments]

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "switch_emulator/forwarding/node.hpp"
#include "transport/wire/interest.hpp"

namespace {

using namespace innet;

constexpr FaceId kAskers = 8;
constexpr FaceId kRoot = kAskers;
constexpr std::size_t kContentBytes = 8192;
// As many as a window of segments in flight: their Interests come before their Data.
constexpr std::uint64_t kWindow = 512;

wire::Name name_of(std::string_view uri) { return wire::Name::from_uri(uri).value(); }

struct Packets {
    std::vector<PacketRef> interests;  ///< kAskers per segment
    std::vector<PacketRef> data;       ///< one per segment
};

Packets make_window(PacketPool& pool, security::Signer& signer, std::uint64_t first_segment) {
    Packets packets;
    const wire::Name hint = name_of("/n/root");
    for (std::uint64_t segment = first_segment; segment < first_segment + kWindow; ++segment) {
        wire::Name name = name_of("/train1/g0/0-7/sum.f32/seq=41");
        name.append_number(wire::kSegmentComponent, 1'000'000 + segment);
        for (std::uint32_t requester = 0; requester < kAskers; ++requester) {
            PacketRef& interest = packets.interests.emplace_back(pool.allocate(256));
            wire::InterestFields fields;
            fields.name = name.view();
            fields.forwarding_hint = hint.view();
            fields.nonce = static_cast<std::uint32_t>(segment * 0x9e3779b1U) ^ requester;
            fields.lifetime = std::chrono::seconds(1);
            interest.truncate(wire::encode_interest(fields, interest.writable()));
        }
        wire::DataFields fields;
        fields.name = name.view();
        fields.signature_type = signer.type();
        fields.key_name = signer.key_name();
        PacketRef& data = packets.data.emplace_back(pool.allocate(kContentBytes + 512));
        const auto layout =
            wire::encode_data(fields, kContentBytes, signer.signature_size(), data.writable());
        const auto buffer = data.writable();
        data.truncate(layout.size);
        const auto view = wire::DataView::parse(data.bytes());
        if (!view || !signer.sign(view->signed_portion(),
                                  buffer.subspan(layout.signature_offset, layout.signature_size))) {
            std::abort();
        }
    }
    return packets;
}

void drain(forwarding::Node& node) {
    for (std::size_t face = 0; face < node.outbox().faces(); ++face) {
        node.outbox().queue(static_cast<FaceId>(face)).clear();
    }
}

/// Time that this thread has had a processor: a busy machine does not spoil the figure.
Duration processor_time() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

struct Result {
    double interest_ns = 0;  ///< per Interest received
    double data_ns = 0;      ///< per Data received (and sent eight times)
    double packet_ns = 0;    ///< per packet received
    double moved_ns = 0;     ///< per packet received or sent
};

Result run(bool verified, std::uint64_t segments) {
    PacketPool pool;
    security::Keyring keyring;
    const std::vector<std::uint8_t> secret(16, 7);
    const wire::Name key_name = name_of("/train1/key");
    const auto signer = security::make_gmac_signer(key_name, secret, {1, 2, 3, 4, 5, 6});
    if (verified && !keyring.add(wire::SignatureType::kGmac, key_name, secret)) std::abort();
    forwarding::NodeOptions options;
    options.own_name = name_of("/n/s0");
    options.cache_bytes = verified ? 32 << 20 : 0;
    forwarding::Node node(options, pool, keyring, signer.get());
    for (FaceId face = 0; face <= kRoot; ++face) node.add_face();
    node.add_route(name_of("/n/root"), kRoot, 1);

    Duration interest_time{0};
    Duration data_time{0};
    TimePoint now{std::chrono::seconds(1)};
    std::uint64_t done = 0;
    for (; done < segments; done += kWindow) {
        Packets packets = make_window(pool, *signer, done);
        now += std::chrono::milliseconds(1);
        const auto start = processor_time();
        for (std::size_t i = 0; i < packets.interests.size(); ++i) {
            node.on_packet(static_cast<FaceId>(i % kAskers), packets.interests[i], now);
        }
        const auto middle = processor_time();
        for (const PacketRef& data : packets.data) node.on_packet(kRoot, data, now);
        const auto end = processor_time();
        interest_time += middle - start;
        data_time += end - middle;
        node.on_timer(now);
        drain(node);
    }
    if (node.face_counters(0).data_out != done || node.counters().pit_aggregated != 7 * done) {
        std::abort();
    }
    const auto ns = [](Duration time) { return static_cast<double>(time.count()); };
    const auto count = static_cast<double>(done);
    return {.interest_ns = ns(interest_time) / (kAskers * count),
            .data_ns = ns(data_time) / count,
            .packet_ns = ns(interest_time + data_time) / ((kAskers + 1) * count),
            .moved_ns = ns(interest_time + data_time) / (2 * (kAskers + 1) * count)};
}

void report(const char* title, const Result& result) {
    std::printf(
        "%-28s %8.0f ns/Interest  %8.0f ns/Data  %8.0f ns/packet in  %8.0f ns/packet moved\n",
        title, result.interest_ns, result.data_ns, result.packet_ns, result.moved_ns);
}

}  // namespace

int main(int argc, char** argv) {
    const std::uint64_t segments = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100'000;
    report("no crypto, no cache", run(false, segments));
    report("GMAC of 8 KiB, 32 MiB cache", run(true, segments));
}
