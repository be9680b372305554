// Requests are executed once, in the session of their receiver, and when a holder of the key sent
// them.

#include <doctest/doctest.h>

#include <charconv>
#include <string>
#include <vector>

#include "transport/object/request_guard.hpp"
#include "transport/wire/text.hpp"

using namespace innet;

namespace {

wire::Name name(const std::string& uri) { return wire::Name::from_uri(uri).value(); }

const std::string kKey = "a key of the tenant";
const wire::Name kRequests = name("/kv/ab/request/h1");
constexpr std::uint64_t kSession = 0xfedcba9876543210;

std::string hexadecimal(std::uint64_t number, std::size_t digits) {
    std::string text(digits, '0');
    for (std::size_t place = digits; place > 0; number >>= 4U) {
        text[--place] = "0123456789abcdef"[number & 0xfU];
    }
    return text;
}

struct Sent {
    std::uint64_t session = kSession;
    std::uint64_t sender = 7;
    std::uint32_t number = 1;
    std::string verb = "drop/00ff";
    std::string key = kKey;

    wire::Name named() const {
        const std::string numbers =
            hexadecimal(session, 16) + hexadecimal(sender, 16) + hexadecimal(number, 8);
        const std::string untagged = "/kv/ab/request/h1/h2/" + numbers + "/" + verb;
        RequestTagger tagger(wire::bytes_of(key));
        const std::string tag = digits_of(tagger.tag(wire::bytes_of(untagged)));
        return name("/kv/ab/request/h1/h2/" + numbers + tag + "/" + verb);
    }
};

struct Receiver {
    RequestGuard guard{kRequests, wire::bytes_of(kKey), kSession};
    TimePoint now{std::chrono::hours(1)};

    bool admits(const Sent& sent) { return guard.admits(sent.named().view(), now); }
    /// Whether the request would be executed.
    bool executes(const Sent& sent) {
        const wire::Name named = sent.named();
        return guard.admits(named.view(), now) && guard.begins(named.view());
    }
};

}  // namespace

TEST_CASE("a request is executed once, and in any order") {
    Receiver receiver;
    for (const std::uint32_t number : {3U, 1U, 9U, 2U, 8U}) {
        CAPTURE(number);
        CHECK(receiver.executes({.number = number}));
        CHECK(!receiver.executes({.number = number}));
        CHECK(receiver.admits({.number = number}));  // its answer may be on the way
        CHECK(receiver.executes({.sender = 8, .number = number}));
    }
}

TEST_CASE("a request that is changed, of another key or of no form is not admitted") {
    Receiver receiver;
    CHECK(!receiver.admits({.key = "another"}));
    CHECK(!receiver.admits({.session = kSession + 1}));
    const wire::Name right = Sent{}.named();
    const wire::ByteView value = right.view().value();
    for (std::size_t index = kRequests.view().value().size(); index < value.size(); ++index) {
        std::vector<std::uint8_t> bytes(value.begin(), value.end());
        bytes[index] ^= 1U;
        const auto changed = wire::NameView::parse(bytes);
        CAPTURE(index);
        CHECK((!changed || !receiver.guard.admits(*changed, receiver.now)));
    }
    for (std::size_t components = 0; components < right.view().size(); ++components) {
        CHECK(!receiver.guard.admits(right.view().prefix(components), receiver.now));
        CHECK(!receiver.guard.begins(right.view().prefix(kRequests.view().size())));
    }
    const wire::NameView head = right.view().prefix(right.view().size() - 2);
    wire::Name joined(head);  // the same text
    CHECK(!receiver.guard.admits(joined.append("drop/00ff").view(), receiver.now));
    wire::Name typed(head);
    typed.append("drop").append(wire::kSegmentComponent, wire::bytes_of("00ff"));
    CHECK(!receiver.guard.admits(typed.view(), receiver.now));
    wire::Name longer = right;
    CHECK(!receiver.guard.admits(longer.append("x").view(), receiver.now));
    CHECK(receiver.executes({}));
}

TEST_CASE("requests of a session that has ended are not admitted") {
    Receiver receiver;
    CHECK(receiver.executes({.number = 1}));
    receiver.now += RequestGuard::kSessionTime - Duration(1);
    CHECK(receiver.admits({.number = 2}));
    receiver.now += Duration(1);
    for (const std::uint32_t number : {1U, 2U, 3U}) CHECK(!receiver.admits({.number = number}));
    CHECK(receiver.guard.session() != kSession);
    CHECK(receiver.executes({.session = receiver.guard.session(), .number = 1}));
}

TEST_CASE("the session is told to holders of the key, whatever session they know") {
    Receiver receiver;
    CHECK(receiver.executes({.session = 0, .verb = "session"}));
    CHECK(receiver.executes({.session = 0, .verb = "session"}));
    CHECK(!receiver.admits({.session = 0, .verb = "session", .key = "another"}));
    CHECK(receiver.guard.session() == kSession);
    receiver.now += RequestGuard::kSessionTime;
    CHECK(receiver.admits({.session = 0, .verb = "session"}));
    CHECK(receiver.guard.session() != kSession);
}

TEST_CASE("a number that is too old to be known is not admitted") {
    Receiver receiver;
    CHECK(receiver.executes({.number = 5}));
    CHECK(receiver.executes({.number = 5 + (1U << 14U) - 1}));
    CHECK(!receiver.executes({.number = 5}));
    CHECK(receiver.executes({.number = 6}));
    CHECK(receiver.executes({.number = 6 + (1U << 14U)}));
    for (const std::uint32_t number : {5U, 6U}) CHECK(!receiver.admits({.number = number}));
    CHECK(receiver.executes({.number = 7}));
    for (const std::uint32_t number : {0xffff'ffffU, 0xffff'fffeU}) {
        CHECK(receiver.executes({.number = number}));
        CHECK(!receiver.executes({.number = number}));
    }
}

TEST_CASE("what is remembered of senders is bounded, and none of it is forgotten in a session") {
    Receiver receiver;
    for (std::uint64_t sender = 0; sender < RequestGuard::kMaxSenders; ++sender) {
        REQUIRE(receiver.executes({.sender = sender}));
    }
    CHECK(receiver.executes({.sender = 0, .number = 2}));
    CHECK(!receiver.executes({.sender = RequestGuard::kMaxSenders}));
    CHECK(!receiver.admits({.sender = 0}));
    CHECK(receiver.executes({.session = receiver.guard.session(), .sender = 0}));
}
