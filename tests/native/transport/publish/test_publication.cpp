#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "transport/publish/publication.hpp"

using namespace innet;

namespace {

wire::Name name(const std::string& uri) { return wire::Name::from_uri(uri).value(); }

struct Fixture {
    Fixture() : tensor(2500) {
        for (std::size_t i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<std::uint8_t>(i);
        keyring.accept_digest(true);
    }
    Publication publish() {
        return {name("/job/g0/3/sum.u8/seq=41"),
                tensor,
                {1, 2500, 1000},
                {},
                2500,
                "text",
                "",
                1,
                pool,
                signer};
    }
    /// The bytes of a packet's content.
    static std::vector<std::uint8_t> content_of(const PacketRef& packet) {
        const auto bytes = wire::DataView::parse(packet.bytes())->content();
        return {bytes.begin(), bytes.end()};
    }
    void use_gmac() {
        const std::vector<std::uint8_t> secret(16, 7);
        signer = security::make_gmac_signer(name("/job/KEY/g0/v=1"), secret, {});
    }
    bool verifies(const PacketRef& packet) {
        const auto data = wire::DataView::parse(packet.bytes());
        return data && keyring.verify(*data) == security::Verdict::kValid;
    }

    PacketPool pool;
    std::shared_ptr<security::Signer> signer = security::make_digest_signer();
    security::Keyring keyring;
    std::vector<std::uint8_t> tensor;
};

}  // namespace

TEST_CASE("a segment's packet carries its name, its bytes, the counts and a signature") {
    Fixture fixture;
    Publication publication = fixture.publish();
    const PacketRef packet = publication.packet(2, true);
    CHECK(fixture.verifies(packet));
    const auto data = wire::DataView::parse(packet.bytes());
    CHECK(data->name().to_uri() == "/job/g0/3/sum.u8/seq=41/seg=2");
    CHECK(data->final_segment() == 2);
    CHECK(data->tensor_elements() == 2500);
    CHECK(std::ranges::equal(data->content(), std::span(fixture.tensor).subspan(2000)));
}

TEST_CASE("a packet is made once, and signed when it leaves the node") {
    Fixture fixture;
    Publication publication = fixture.publish();
    const PacketRef local = publication.packet(0, false);
    CHECK_FALSE(fixture.verifies(local));
    const std::vector<std::uint8_t> before(local.bytes().begin(), local.bytes().end());
    const PacketRef sent = publication.packet(0, true);
    CHECK(fixture.verifies(sent));
    // Whoever holds the unsigned bytes does not see them change.
    CHECK(std::ranges::equal(local.bytes(), before));
    CHECK(publication.packet(0, true).bytes().data() == sent.bytes().data());
    CHECK(publication.packet(0, false).bytes().data() == sent.bytes().data());
}

TEST_CASE("a retained copy does not change with the tensor") {
    Fixture fixture;
    const auto original = fixture.tensor;
    Publication publication = fixture.publish();
    publication.retain(1);
    std::fill(fixture.tensor.begin() + 1000, fixture.tensor.begin() + 2000, std::uint8_t{0});
    CHECK(publication.retained_bytes() >= 1000);
    publication.retain_all();
    std::ranges::fill(fixture.tensor, std::uint8_t{0});
    for (std::uint64_t segment = 0; segment < 3; ++segment) {
        const PacketRef packet = publication.packet(segment, true);
        CHECK(fixture.verifies(packet));
        const auto content = wire::DataView::parse(packet.bytes())->content();
        CHECK(std::ranges::equal(content,
                                 std::span(original).subspan(1000 * segment, content.size())));
    }
}

TEST_CASE("an aborted publication answers with a signed reason and keeps nothing") {
    Fixture fixture;
    Publication publication = fixture.publish();
    publication.retain_all();
    publication.abort("gave up");
    CHECK(fixture.pool.bytes_in_use() == 0);
    const PacketRef packet = publication.packet(1, true);
    CHECK(fixture.verifies(packet));
    const auto data = wire::DataView::parse(packet.bytes());
    CHECK(data->tensor_error() == static_cast<std::uint64_t>(wire::TensorErrorCode::kAborted));
    CHECK(std::string(data->content().begin(), data->content().end()) == "gave up");
}

TEST_CASE("segments of unequal sizes are cut where their ends say") {
    Fixture fixture;
    const std::vector<std::uint64_t> ends{700, 700, 1700, 2500};
    std::vector<std::uint8_t> tensor = fixture.tensor;
    Publication publication(name("/job/g0/3/sum.u8/seq=41"), tensor, {1, 4000, 1000}, ends, 99,
                            "text", "", 1, fixture.pool, fixture.signer);
    const auto content = [&](std::uint64_t segment) {
        const PacketRef packet = publication.packet(segment, true);
        CHECK(fixture.verifies(packet));
        const auto bytes = wire::DataView::parse(packet.bytes())->content();
        return std::vector<std::uint8_t>(bytes.begin(), bytes.end());
    };
    const auto expected = std::span(fixture.tensor);
    CHECK(std::ranges::equal(content(0), expected.first(700)));
    CHECK(content(1).empty());
    // What is retained outlives the tensor.
    publication.retain_all();
    std::ranges::fill(tensor, std::uint8_t{0});
    CHECK(std::ranges::equal(content(2), expected.subspan(700, 1000)));
    CHECK(std::ranges::equal(content(3), expected.subspan(1700)));
}

TEST_CASE("a lent tensor is copied when somebody reads a packet, and at the end") {
    Fixture fixture;
    const auto original = fixture.tensor;
    fixture.use_gmac();
    Publication publication = fixture.publish();
    publication.lend_tensor();
    const PacketRef sent = publication.packet(0, true);
    const PacketRef read = publication.packet(1, true);
    CHECK(sent.parts()[1].data() == fixture.tensor.data());
    CHECK(sent.mac_due());
    CHECK(Fixture::content_of(read).size() == 1000);
    CHECK(read.parts()[1].empty());
    publication.retain_all();
    std::ranges::fill(fixture.tensor, std::uint8_t{0});
    for (std::uint64_t segment = 0; segment < 3; ++segment) {
        const auto content = Fixture::content_of(publication.packet(segment, true));
        CHECK(std::ranges::equal(content,
                                 std::span(original).subspan(1000 * segment, content.size())));
    }
}

TEST_CASE("packets of a lent tensor are signed like others where the MAC is not made late") {
    Fixture fixture;
    Publication publication = fixture.publish();
    publication.lend_tensor();
    const PacketRef packet = publication.packet(1, true);
    CHECK(fixture.verifies(packet));
    std::ranges::fill(fixture.tensor, std::uint8_t{0});
    CHECK(fixture.verifies(packet));
}

TEST_CASE("packets say how many segments of the sum are here, without a gap") {
    Fixture fixture;
    Publication publication = fixture.publish();
    const auto stated = [&](std::uint64_t segment) {
        return wire::DataView::parse(publication.packet(segment, true).bytes())
            ->segments_received();
    };
    CHECK(stated(0) == std::nullopt);
    publication.on_sum_received(1, 0);
    CHECK(stated(1) == std::nullopt);
    publication.on_sum_received(0, 0);
    CHECK(stated(2) == 2);
    CHECK(stated(1) == std::nullopt);  // as it was sent
}

TEST_CASE("what all ranks hold the sum of is dropped, whatever the tensor becomes") {
    Fixture fixture;
    const auto original = fixture.tensor;
    fixture.use_gmac();
    Publication publication = fixture.publish();
    publication.lend_tensor();
    const PacketRef elsewhere = publication.packet(0, true);
    static_cast<void>(publication.packet(1, true));
    const std::size_t both = publication.retained_bytes();
    publication.on_sum_received(0, 3);  // more than this rank holds: nobody can know that
    CHECK_FALSE(publication.packet(0, true));
    CHECK(publication.packet(1, true));
    CHECK(publication.retained_bytes() < both);
    publication.on_sum_received(1, 1);
    CHECK(publication.packet(1, true));
    publication.on_sum_received(2, 2);
    CHECK_FALSE(publication.packet(1, true));
    publication.retain(0);
    publication.retain_all();
    std::ranges::fill(fixture.tensor, std::uint8_t{0});
    CHECK_FALSE(publication.packet(0, true));
    CHECK(Fixture::content_of(publication.packet(2, true)) ==
          std::vector<std::uint8_t>(original.begin() + 2000, original.end()));
    CHECK(Fixture::content_of(elsewhere) ==
          std::vector<std::uint8_t>(original.begin(), original.begin() + 1000));
}

TEST_CASE("a packet that is elsewhere keeps its bytes when its publication is aborted") {
    Fixture fixture;
    const auto original = fixture.tensor;
    fixture.use_gmac();
    Publication publication = fixture.publish();
    publication.lend_tensor();
    const PacketRef elsewhere = publication.packet(2, true);
    publication.abort("gave up");
    publication.on_sum_received(0, 1);
    std::ranges::fill(fixture.tensor, std::uint8_t{0});
    CHECK(Fixture::content_of(elsewhere) ==
          std::vector<std::uint8_t>(original.begin() + 2000, original.end()));
    CHECK(publication.retained_bytes() == 0);
}
