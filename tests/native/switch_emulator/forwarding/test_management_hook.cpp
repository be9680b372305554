// Which Interests reach the node's management, and what becomes of its answers.

#include <doctest/doctest.h>

#include "tests/native/switch_emulator/forwarding/switch_under_test.hpp"

using namespace innet;
using namespace std::chrono_literals;
using innet::testing::Sent;
using innet::testing::SwitchUnderTest;

namespace {

class RecordingService final : public forwarding::LocalService {
  public:
    Production answer(FaceId from, const wire::InterestView& interest, TimePoint) override {
        asked.emplace_back(from, interest.name().to_uri());
        return next;
    }
    void on_face_closed(FaceId face) override { closed.push_back(face); }
    void on_timer(TimePoint) override {
        ++timers;
        deadline = kNever;
    }
    TimePoint next_deadline() const override { return deadline; }

    Production next;
    TimePoint deadline = kNever;
    int timers = 0;
    std::vector<std::pair<FaceId, std::string>> asked;
    std::vector<FaceId> closed;
};

struct Managed {
    Managed() { node.node.set_management(&service); }
    ~Managed() { service.next = {}; }

    RecordingService service;
    SwitchUnderTest node{9, SwitchUnderTest::default_options(), {.scope = FaceScope::kLocal}};
};

}  // namespace

TEST_CASE("management sees its own names before the content store, and no others") {
    Managed managed;
    managed.service.next = {Production::Kind::kData, managed.node.data("/localhost/nfd/x/y"), {}};
    managed.node.receive_interest(2, "/localhost/nfd/x/y", 1);
    managed.node.receive_interest(3, "/localhop/nfd/x/y", 2);
    for (const char* other : {"/localhost", "/localhost/nf", "/localhost/nfdx", "/a/localhost/nfd",
                              "/localhop/other"}) {
        managed.node.receive_interest(4, other, 3);
    }
    const std::vector<std::pair<FaceId, std::string>> expected = {{2, "/localhost/nfd/x/y"},
                                                                  {3, "/localhop/nfd/x/y"}};
    CHECK(managed.service.asked == expected);
    CHECK(managed.node.sent(2).at(0).kind == Sent::Kind::kData);
}

TEST_CASE("a slow answer reaches a requester that retransmitted meanwhile") {
    Managed managed;
    managed.service.next = {Production::Kind::kPending, {}, {}};
    managed.node.receive_interest(2, "/localhost/nfd/faces/create", 1, {.token = "t"});
    managed.node.receive_interest(2, "/localhost/nfd/faces/create", 2, {.token = "u"});
    CHECK(managed.service.asked.size() == 1);
    CHECK(managed.node.sent(2).empty());
    managed.node.node.put_data(RequesterId::kApplication,
                               managed.node.data("/localhost/nfd/faces/create"), false);
    managed.node.node.run_pending(managed.node.now);
    const auto sent = managed.node.sent(2);
    REQUIRE(sent.size() == 1);
    CHECK(sent[0].kind == Sent::Kind::kData);
    CHECK(sent[0].token == "u");
}

TEST_CASE("unknown management verbs are refused") {
    Managed managed;
    managed.service.next = {Production::Kind::kAbsent, {}, {}};
    managed.node.receive_interest(2, "/localhost/nfd/x", 1);
    managed.service.next = {};
    managed.node.receive_interest(3, "/localhost/nfd/x", 2);
    CHECK(managed.node.sent(2).at(0).reason == wire::NackReason::kNoData);
    CHECK(managed.node.sent(3).at(0).reason == wire::NackReason::kNoRoute);
}

TEST_CASE("management is notified of closed faces and of its deadlines") {
    Managed managed;
    managed.node.node.close_face(5, managed.node.now);
    CHECK(managed.service.closed == std::vector<FaceId>{5});
    managed.service.deadline = managed.node.now + 1s;
    CHECK(managed.node.node.next_deadline() == managed.service.deadline);
    managed.node.wait(1s);
    CHECK(managed.service.timers == 1);
}
