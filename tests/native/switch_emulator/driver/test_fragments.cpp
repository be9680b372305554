#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "switch_emulator/driver/fragments.hpp"
#include "transport/wire/lp.hpp"

using namespace innet;
using namespace innet::driver;

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::array<std::uint8_t, 3> kToken = {7, 8, 9};

/// A Data element of `size` bytes, of which nobody looks at the value.
Bytes data_element(std::size_t size, std::mt19937& chance) {
    Bytes bytes(size);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(chance());
    wire::Writer writer(bytes);
    const std::size_t header = size < 255 ? 2 : 4;
    writer.header(wire::kData, size - header);
    REQUIRE(writer.size() == header);
    return bytes;
}

struct Link {
    explicit Link(std::size_t datagram_bytes) : datagram(datagram_bytes) {}

    PacketPool pool;
    std::size_t datagram;
    std::vector<FragmentHeader> headers;

    OutgoingPacket packet(const Bytes& payload, bool has_fields) {
        OutgoingPacket result;
        if (has_fields) {
            wire::LpFields fields;
            fields.pit_token = kToken;
            fields.congestion_mark = 1;
            result.header_size = static_cast<std::uint8_t>(
                wire::encode_lp_header(fields, payload.size(), result.header));
        }
        result.payload = pool.copy_of(payload);
        return result;
    }

    /// The datagrams of a packet, one after another.
    Bytes message(const OutgoingPacket& packet, const FragmentCut& cut) {
        headers.clear();
        headers.reserve(cut.fragments);
        Bytes bytes;
        for (std::size_t i = 0; i < cut.fragments; ++i) {
            std::vector<iovec> vectors;
            append_fragment(packet, cut, i, headers.emplace_back(), vectors);
            const std::size_t before = bytes.size();
            for (const iovec& part : vectors) {
                const auto* from = static_cast<const std::uint8_t*>(part.iov_base);
                bytes.insert(bytes.end(), from, from + part.iov_len);
            }
            const std::size_t size = bytes.size() - before;
            CHECK((i + 1 < cut.fragments ? size == datagram : size <= datagram));
            CHECK(wire::LpView::parse(std::span(bytes).subspan(before)));
        }
        return bytes;
    }

    /// As the kernel fills the vectors.
    static void land(const Bytes& bytes, FragmentLanding& landing) {
        std::size_t offset = 0;
        for (const iovec& part : landing.vectors()) {
            const std::size_t count = std::min(part.iov_len, bytes.size() - offset);
            if (count > 0) std::memcpy(part.iov_base, bytes.data() + offset, count);
            offset += count;
        }
        REQUIRE(offset == bytes.size());
    }
};

bool same(const PacketRef& packet, std::span<const std::uint8_t> bytes) {
    return std::ranges::equal(packet.bytes(), bytes);
}

}  // namespace

TEST_CASE("a packet of any size is split into datagrams, and joined when they arrive together") {
    std::size_t datagram = 0;
    SUBCASE("MTU 576") { datagram = 548; }
    SUBCASE("MTU 1500") { datagram = 1472; }
    SUBCASE("MTU 9000") { datagram = 8972; }
    SUBCASE("MTU 33100") { datagram = 33072; }
    Link link(datagram);
    FragmentLanding landing(datagram, link.pool);
    std::mt19937 chance(5);
    std::vector<std::size_t> sizes = {datagram + 1, std::min<std::size_t>(2 * datagram, 60000),
                                      34000, 60000};
    for (std::size_t i = 0; i < 600; ++i) sizes.push_back(datagram + i);  // every short last one
    for (std::size_t i = 0; i < 200; ++i) sizes.push_back(datagram + chance() % (65000 - datagram));
    std::uint64_t sequence = 0;
    std::size_t joined = 0;
    for (const std::size_t size : sizes) {
        const Bytes payload = data_element(size, chance);
        const OutgoingPacket packet = link.packet(payload, size % 2 == 0);
        const FragmentCut cut = cut_into_fragments(packet, datagram, sequence);
        if (cut.fragments == 0) {
            CHECK((size <= datagram || size > 33000));
            continue;
        }
        const Bytes bytes = link.message(packet, cut);
        REQUIRE(bytes.size() <= kMaxDatagramBytes);
        Link::land(bytes, landing);
        const PacketRef whole = landing.join(bytes.size(), datagram);
        REQUIRE(whole);
        const auto view = wire::LpView::parse(whole.bytes());
        REQUIRE(view);
        CHECK(std::ranges::equal(view->payload(), payload));
        CHECK(view->pit_token().size() == (size % 2 == 0 ? kToken.size() : 0));
        CHECK(view->congestion_mark() == (size % 2 == 0 ? 1 : 0));
        sequence += cut.fragments;
        ++joined;
    }
    CHECK(joined > 300);
}

TEST_CASE("a message that is not one packet's fragments yields its datagrams") {
    constexpr std::size_t kDatagram = 1472;
    Link link(kDatagram);
    std::mt19937 chance(7);
    const Bytes payload = data_element(5000, chance);
    const OutgoingPacket packet = link.packet(payload, true);
    const FragmentCut cut = cut_into_fragments(packet, kDatagram, 70);
    Bytes bytes = link.message(packet, cut);
    std::size_t step = kDatagram;
    SUBCASE("a header has another number") { bytes[2 * kDatagram + 12] ^= 1U; }
    SUBCASE("the first header counts more") {
        bytes[19] = 9;
        REQUIRE(wire::LpView::parse(std::span(bytes).first(kDatagram))->fragment()->count == 9);
    }
    SUBCASE("the last fragment is missing") { bytes.resize(3 * kDatagram); }
    SUBCASE("the first fragment is missing") {
        bytes.erase(bytes.begin(), bytes.begin() + kDatagram);
    }
    SUBCASE("the datagrams have another size") { step = 1000; }
    SUBCASE("it is no packet") { std::ranges::fill(bytes, std::uint8_t{0x77}); }
    FragmentLanding landing(kDatagram, link.pool);
    Link::land(bytes, landing);
    CHECK_FALSE(landing.join(bytes.size(), step));
    for (std::size_t offset = 0; offset < bytes.size(); offset += step) {
        const std::size_t size = std::min(step, bytes.size() - offset);
        CHECK(same(landing.take(offset, size, false), std::span(bytes).subspan(offset, size)));
        CHECK(same(landing.take(offset, size, true), std::span(bytes).subspan(offset, size)));
    }
}

TEST_CASE("a taken packet is unchanged when the next message arrives") {
    constexpr std::size_t kDatagram = 1472;
    Link link(kDatagram);
    std::mt19937 chance(9);
    FragmentLanding landing(kDatagram, link.pool);
    const Bytes first(900, 1);
    const Bytes second(900, 2);
    Link::land(first, landing);
    const PacketRef shared = landing.take(0, 900, false);
    Link::land(second, landing);
    const PacketRef copied = landing.take(0, 900, true);
    Link::land(first, landing);
    CHECK(same(shared, first));
    CHECK(same(copied, second));
    CHECK(same(landing.take(0, 900, true), first));
}

TEST_CASE("hostile datagrams are never joined beyond the bytes that arrived") {
    constexpr std::size_t kDatagram = 548;
    Link link(kDatagram);
    std::mt19937 chance(11);
    FragmentLanding landing(kDatagram, link.pool);
    for (int round = 0; round < 20000; ++round) {
        const Bytes payload = data_element(kDatagram + chance() % 3000, chance);
        const OutgoingPacket packet = link.packet(payload, chance() % 2 == 0);
        const FragmentCut cut = cut_into_fragments(packet, kDatagram, chance());
        if (cut.fragments == 0) continue;
        Bytes bytes = link.message(packet, cut);
        for (unsigned changes = chance() % 4; changes > 0; --changes) {
            const std::size_t datagram = chance() % cut.fragments;
            const std::size_t place = datagram * kDatagram + chance() % 30;
            if (place < bytes.size()) bytes[place] = static_cast<std::uint8_t>(chance());
        }
        if (chance() % 4 == 0) bytes.resize(1 + chance() % bytes.size());
        Link::land(bytes, landing);
        const PacketRef whole = landing.join(bytes.size(), kDatagram);
        CHECK(whole.size() <= bytes.size());
        const auto view = wire::LpView::parse(whole.bytes());
        if (whole && view) CHECK(view->payload().size() < bytes.size());
    }
}
