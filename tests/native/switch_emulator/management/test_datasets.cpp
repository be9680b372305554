#include <doctest/doctest.h>

#include "command_vectors.hpp"
#include "managed_node.hpp"
#include "switch_emulator/management/face_query.hpp"

using namespace innet;
using namespace innet::testing;
using namespace std::chrono_literals;
using test::Bytes;
using test::from_hex;
using test::tlv;

namespace {

std::vector<wire::Element> elements_of(wire::ByteView bytes) {
    std::vector<wire::Element> elements;
    for (wire::Reader reader(bytes); !reader.empty();) {
        const auto element = reader.next();
        REQUIRE(element);
        elements.push_back(*element);
    }
    return elements;
}

std::uint64_t number_in(wire::ByteView bytes, std::uint32_t type) {
    for (const wire::Element& element : elements_of(bytes)) {
        if (element.type == type) return wire::read_nonnegative(element.value).value();
    }
    FAIL("no element of type " << type);
    return 0;
}

/// How many faces the query with this filter finds.
std::size_t found_faces(ManagedNode& managed, const Bytes& filter_fields, FaceId requester = 2) {
    wire::Name query = name("/localhost/nfd/faces/query");
    query.append(tlv(0x96, {filter_fields}));
    return elements_of(managed.dataset(requester, query.view().to_uri())).size();
}

}  // namespace

TEST_CASE("the RIB and the FIB, element by element") {
    ManagedNode managed;
    auto parameters = named("/a");
    parameters.cost = 7;
    parameters.expiration_period_ms = 9000;
    CHECK(managed.command(2, "rib/register", parameters).code == 200);
    managed.node.wait(1s);
    CHECK(managed.dataset(3, "/localhost/nfd/rib/list") ==
          from_hex("8018 0703080161 8111 69020102 6f0100 6a0107 6c0101 6d021f40"));
    CHECK(managed.dataset(3, "/localhost/nfd/fib/list") ==
          from_hex("800e 0703080161 8107 69020102 6a0107"));
}

TEST_CASE("an empty dataset is one empty segment") {
    ManagedNode managed;
    CHECK(managed.dataset(2, "/localhost/nfd/rib/list").empty());
}

TEST_CASE("every open face is listed, with NFD's elements in their order") {
    ManagedNode managed;
    managed.node.node.close_face(5, managed.node.now);
    const Bytes dataset = managed.dataset(3, "/localhost/nfd/faces/list");
    const auto faces = elements_of(dataset);
    REQUIRE(faces.size() == 8);
    std::vector<std::uint32_t> types;
    for (const wire::Element& field : elements_of(faces[2].value)) types.push_back(field.type);
    const std::vector<std::uint32_t> expected = {0x69, 0x72, 0x81, 0x84, 0x85, 0x86, 0x90, 0x91,
                                                 0x97, 0x92, 0x93, 0x98, 0x94, 0x95, 0x6c};
    CHECK(types == expected);
    CHECK(number_in(faces[3].value, 0x69) == 259);
    CHECK(number_in(faces[3].value, 0x90) == 1);  // the Interest that asked
    CHECK(number_in(faces[3].value, 0x84) == 1);
    CHECK(number_in(faces.back().value, 0x84) == 0);
}

TEST_CASE("faces are found by the fields of a filter") {
    ManagedNode managed;
    CHECK(found_faces(managed, {}) == 9);
    CHECK(found_faces(managed, from_hex("69020103")) == 1);
    CHECK(found_faces(managed, from_hex("6901ff")) == 0);
    CHECK(found_faces(managed, tlv(0x83, {test::text("udp4")})) == 4);
    CHECK(found_faces(managed, tlv(0x83, {test::text("fd")})) == 9);
    CHECK(found_faces(managed, tlv(0x72, {test::text("udp4://127.0.0.1:6363")})) == 4);
    CHECK(found_faces(managed, tlv(0x81, {test::text("fd://7")})) == 1);
    CHECK(found_faces(managed, from_hex("840100")) == 1);
    CHECK(found_faces(managed, from_hex("850102")) == 0);
    CHECK(found_faces(managed, from_hex("860100")) == 9);
    wire::Name query = name("/localhost/nfd/faces/query");
    query.append("no filter");
    managed.node.receive_interest(2, query.view().to_uri(), 900, {.can_be_prefix = true});
    CHECK(managed.response(2).code == 400);
}

TEST_CASE("channels, the content store and the node as a whole") {
    ManagedNode managed;
    CHECK(managed.dataset(2, "/localhost/nfd/faces/channels") ==
          tlv(0x82, {tlv(0x81, {test::text("unix:///run/nfd/nfd.sock")})}));
    const Bytes cs = managed.dataset(2, "/localhost/nfd/cs/info");
    const auto info = elements_of(cs);
    REQUIRE(info.size() == 1);
    CHECK(info[0].type == 0x80);
    CHECK(number_in(info[0].value, 0x83) == (1 << 20) / 8800);
    CHECK(number_in(info[0].value, 0x6c) == 3);
    const Bytes status = managed.dataset(2, "/localhost/nfd/status/general");
    CHECK(elements_of(status)[0].type == 0x80);
    CHECK(number_in(status, 0x81) == kWallTimeMs - 1000);
    CHECK(number_in(status, 0x82) == kWallTimeMs);
    CHECK(number_in(status, 0x90) >= 5);
    const auto interests_before = number_in(status, 0x90);
    managed.node.node.close_face(2, managed.node.now);
    const Bytes later = managed.dataset(3, "/localhost/nfd/status/general");
    CHECK(number_in(later, 0x90) > interests_before);  // a closed face's stay counted
}

TEST_CASE("a large dataset comes in segments, each of which can be had again later") {
    ManagedNode managed;
    for (int i = 0; i < 1000; ++i) {
        CHECK(managed.command(2, "rib/register", named("/app/" + std::to_string(i))).code == 200);
    }
    const Bytes first = managed.dataset(3, "/localhost/nfd/rib/list");
    CHECK(elements_of(first).size() == 1000);
    managed.node.receive_interest(3, "/localhost/nfd/rib/list", 70, {.can_be_prefix = true});
    const auto sent = managed.node.sent(3);
    CHECK(sent.at(0).name.ends_with("/seg=0"));
    CHECK(sent.at(0).size <= kMaxForeignPacketBytes);
    const std::string versioned = sent[0].name.substr(0, sent[0].name.rfind('/'));
    CHECK(managed.command(2, "rib/unregister", named("/app/7")).code == 200);
    const Bytes second = managed.dataset(3, "/localhost/nfd/rib/list");
    CHECK(elements_of(second).size() == 999);
    CHECK(managed.dataset(3, versioned) == first);
    managed.node.wait(61s);
    managed.node.receive_interest(3, versioned + "/seg=0", 71);
    CHECK(managed.node.sent(3).at(0).kind == Sent::Kind::kNack);
}

TEST_CASE("requests with signed parameters are answered, as python-ndn's nfdc sends them") {
    ManagedNode managed;
    managed.receive(2, kFacesQuery);
    const auto sent = managed.node.sent(2);
    REQUIRE(sent.size() == 1);
    const auto asked = wire::InterestView::parse(kFacesQuery);
    REQUIRE(asked);
    CHECK(asked->name().is_prefix_of(name(sent[0].name).view()));
    CHECK(elements_of(bytes(sent[0].content)).size() == 4);
}

TEST_CASE("names without a dataset are refused") {
    ManagedNode managed;
    std::uint32_t nonce = 100;
    for (const char* uri :
         {"/localhost/nfd/rib/list/more", "/localhost/nfd/faces/query",
          "/localhost/nfd/rib/list/seg=0", "/localhost/nfd/rib/list/more/v=1/seg=0"}) {
        CAPTURE(uri);
        managed.node.receive_interest(2, uri, ++nonce);
        CHECK(managed.response(2).code == 400);
    }
    for (const char* uri : {"/localhost/nfd/rib/list/v=1", "/localhost/nfd/rib/list/v=1/seg=0"}) {
        managed.node.receive_interest(2, uri, ++nonce);
        CHECK(managed.node.sent(2).at(0).kind == Sent::Kind::kNack);
    }
}

TEST_CASE("kept datasets are bounded in bytes") {
    management::DatasetStore store(1000);
    const wire::Name list = name("/list");
    const TimePoint now{1h};
    const auto first = store.publish(list.view(), Bytes(600, 1), 5, now).versioned_name;
    CHECK(store.find(first.view(), now) != nullptr);
    CHECK(store.publish(list.view(), Bytes(600, 1), 6, now).versioned_name == first);
    const auto second = store.publish(list.view(), Bytes(600, 2), 5, now).versioned_name;
    CHECK(first < second);  // versions rise, even within a millisecond
    CHECK(store.find(first.view(), now) == nullptr);
    CHECK(store.find(second.view(), now) != nullptr);
}

TEST_CASE("kept datasets without content are bounded") {
    management::DatasetStore store(1000);
    const TimePoint now{1h};
    const auto first = store.publish(name("/query/0").view(), {}, 5, now).versioned_name;
    for (int i = 1; i < 1000; ++i) {
        store.publish(name("/query/" + std::to_string(i)).view(), {}, 5, now);
    }
    CHECK(store.find(first.view(), now) == nullptr);
}
