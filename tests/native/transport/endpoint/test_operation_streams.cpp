#include <doctest/doctest.h>

#include <algorithm>
#include <deque>

#include "transport/endpoint/operation_streams.hpp"
#include "virtual_network.hpp"

using namespace innet;
using namespace innet::testing;

namespace {

constexpr StreamId kStream = 7;
constexpr std::uint32_t kDepth = 2;
constexpr const char* kWhy = "rank 0 (h0): its call failed";

/// Rank 0 with a stream of exchanges: operation `seq` publishes rank 0's tensor and fetches rank
/// 1's, so it ends when rank 1 publishes. An operation's id is its sequence number.
struct Exchanges {
    Exchanges() {
        first.produce_at("/job/g0/0", "rank 0");
        second.produce_at("/job/g0/1", "rank 1");
        streams.open(kStream, {name("/job/g0/0")}, kDepth);
    }

    static std::string tensor_uri(int rank, std::uint64_t seq) {
        return "/job/g0/" + std::to_string(rank) + "/sum.u8/seq=" + std::to_string(seq);
    }

    PublicationSpec publication(int rank, std::uint64_t seq) {
        PublicationSpec spec;
        spec.prefix = name("/job/g0/" + std::to_string(rank));
        spec.kind = name("/sum.u8");
        spec.seq = seq;
        spec.tensor = tensor;
        spec.segmentation = {1, tensor.size(), tensor.size()};
        spec.tensor_elements = tensor.size();
        return spec;
    }

    void submit(std::uint64_t seq, bool synchronising = true, Duration timeout = 1h,
                std::uint32_t reserves = 0) {
        FetchSpec fetch;
        fetch.targets.push_back({name(tensor_uri(1, seq)), name("/n/h1")});
        fetch.segmentation = {1, tensor.size(), tensor.size()};
        fetch.end_segment = 1;
        fetch.tensor_elements = tensor.size();
        fetch.into = results.emplace_back(tensor.size());
        OperationSpec spec;
        spec.publication = publication(0, seq);
        spec.fetches.push_back(std::move(fetch));
        spec.deadline = network.now() + timeout;
        streams.submit(kStream, {seq, seq, synchronising, std::move(spec), reserves},
                       network.now());
        pass(10ms);
    }

    void peer_publishes(std::uint64_t seq) {
        OperationSpec spec;
        spec.publication = publication(1, seq);
        second.endpoint().submit(seq, std::move(spec), network.now());
        pass(10ms);
    }

    void pass(Duration time) {
        for (Duration passed{0}; passed < time; passed += 1ms) {
            network.run_for(1ms);
            if (streams.next_deadline() <= network.now()) streams.on_timer(network.now());
            streams.take_completions(ended, network.now());
        }
        network.run_for(10ms);
    }

    bool started(std::uint64_t seq) const {
        return std::ranges::any_of(first.expressed_uris, [&](const std::string& uri) {
            return uri.starts_with(tensor_uri(1, seq) + "/");
        });
    }

    void fail(std::uint64_t seq, const std::string& why) {
        FailureSpec failure;
        failure.seq = seq;
        failure.why = why;
        streams.fail(kStream, failure, network.now());
        pass(1ms);
    }

    /// What others get instead of rank 0's tensor, once its call has failed.
    std::string failure(std::uint64_t seq) { return failure(tensor_uri(0, seq)); }
    std::string failure(const std::string& tensor_uri) {
        const PacketRef packet = answer(tensor_uri);
        const auto data = packet ? wire::DataView::parse(packet.bytes()) : std::nullopt;
        if (!data || !data->tensor_error()) return "";
        return {data->content().begin(), data->content().end()};
    }

    /// What others get of rank 0's tensor; empty while there is none.
    std::vector<std::uint8_t> content(std::uint64_t seq) {
        const PacketRef packet = answer(seq);
        if (!packet) return {};
        const wire::ByteView found = wire::DataView::parse(packet.bytes())->content();
        return {found.begin(), found.end()};
    }

    /// The packet that others get for the first segment of rank 0's tensor, if any.
    PacketRef answer(std::uint64_t seq) { return answer(tensor_uri(0, seq)); }
    PacketRef answer(const std::string& tensor_uri) {
        const wire::Name segment = name(tensor_uri + "/seg=0");
        wire::InterestFields fields;
        fields.name = segment.view();
        std::vector<std::uint8_t> packet(256);
        packet.resize(wire::encode_interest(fields, packet));
        const auto interest = wire::InterestView::parse(packet);
        Production production = first.endpoint().produce(*interest, true, network.now());
        return production.kind == Production::Kind::kData ? std::move(production.data)
                                                          : PacketRef();
    }

    void fail(std::uint64_t seq) {
        streams.fail(kStream, {{}, {}, seq, wire::TensorErrorCode::kFailed, kWhy}, network.now());
        pass(10ms);
    }

    /// Whether others are told that rank 0's call failed.
    bool told_of_failure(std::uint64_t seq) {
        const std::vector<std::uint8_t> told = content(seq);
        return std::string(told.begin(), told.end()) == kWhy;
    }

    /// Whether others still get rank 0's tensor.
    bool retained(std::uint64_t seq) { return !content(seq).empty(); }

    const OperationCompletion* completion(OperationId id) const {
        const auto found = std::ranges::find(ended, id, &OperationCompletion::id);
        return found == ended.end() ? nullptr : &*found;
    }

    VirtualNetwork network{PathModel{}};
    Host& first = network.add_host("/n/h0");
    Host& second = network.add_host("/n/h1");
    OperationStreams streams{first.endpoint()};
    std::vector<std::uint8_t> tensor = std::vector<std::uint8_t>(100, 5);
    std::deque<std::vector<std::uint8_t>> results;
    std::vector<OperationCompletion> ended;
};

}  // namespace

TEST_CASE("operations beyond the depth wait and start in order") {
    Exchanges x;
    for (std::uint64_t seq = 0; seq < 5; ++seq) x.submit(seq);
    CHECK(x.started(0));
    CHECK(x.started(1));
    CHECK(!x.started(2));
    x.peer_publishes(0);
    CHECK(x.started(2));
    CHECK(!x.started(3));
    for (std::uint64_t seq = 1; seq < 5; ++seq) x.peer_publishes(seq);
    REQUIRE(x.ended.size() == 5);
    for (std::uint64_t seq = 0; seq < 5; ++seq) {
        CHECK(x.ended[seq].id == seq);
        CHECK(x.ended[seq].status == OperationStatus::kDone);
    }
}

TEST_CASE("a slow operation is overtaken by fewer than the depth, so its tensors stay") {
    Exchanges x;
    for (std::uint64_t seq = 0; seq < 6; ++seq) x.submit(seq);
    for (std::uint64_t seq = 1; seq < 6; ++seq) x.peer_publishes(seq);
    // Were operation 3 to end here, rank 1 would drop what it published for operation 0.
    CHECK(!x.started(2));
    REQUIRE(x.ended.size() == 1);
    CHECK(x.ended[0].id == 1);
    x.peer_publishes(0);
    for (int i = 0; i < 3; ++i) x.pass(10ms);
    CHECK(x.ended.size() == 6);
}

TEST_CASE("a finished synchronising operation frees tensors up to the depth before it") {
    Exchanges x;
    for (std::uint64_t seq = 0; seq < 6; ++seq) {
        x.submit(seq, false);
        x.peer_publishes(seq);
        REQUIRE(x.completion(seq));
    }
    CHECK(x.retained(0));
    x.submit(6);
    CHECK(x.retained(0));
    x.peer_publishes(6);
    REQUIRE(x.completion(6));
    CHECK(!x.retained(0));
    CHECK(!x.retained(4));
    CHECK(x.retained(5));
    CHECK(x.retained(6));
}

TEST_CASE("a failed synchronising operation frees nothing, and the next one starts") {
    Exchanges x;
    x.submit(0);
    x.peer_publishes(0);
    x.submit(1);
    x.submit(2, true, 1s);
    x.submit(3);
    CHECK(!x.started(3));
    x.peer_publishes(1);
    CHECK(x.started(3));
    x.pass(2s);
    REQUIRE(x.completion(2));
    CHECK(x.completion(2)->status == OperationStatus::kDeadlineExceeded);
    CHECK(x.retained(0));
    x.peer_publishes(3);
    CHECK(x.completion(3));
    CHECK(!x.retained(1));
}

TEST_CASE("queued operations end with the others, or when cancelled") {
    Exchanges x;
    for (std::uint64_t seq = 0; seq < 5; ++seq) x.submit(seq);
    x.streams.cancel(3, x.network.now());
    x.pass(1ms);
    REQUIRE(x.completion(3));
    CHECK(x.completion(3)->status == OperationStatus::kCancelled);
    x.streams.abort(wire::Name(), "rank 1 is gone", x.network.now());
    x.pass(1ms);
    CHECK(x.ended.size() == 5);
    for (const OperationId id : {0U, 1U, 2U, 4U}) {
        REQUIRE(x.completion(id));
        CHECK(x.completion(id)->status == OperationStatus::kAborted);
        CHECK(x.completion(id)->detail == "rank 1 is gone");
    }
    CHECK(!x.started(2));
    CHECK(!x.started(4));
}

TEST_CASE("an operation that continues another keeps its place among those in flight") {
    Exchanges x;
    x.submit(0, true, 1h, 1);
    x.submit(2);
    // Operation 1 is to come: 3 would be more than the depth ahead of it.
    x.submit(3);
    x.peer_publishes(0);
    x.peer_publishes(2);
    CHECK(x.completion(0));
    CHECK(x.started(2));
    CHECK(!x.started(3));
    // It starts at once, before those that wait for their turn.
    x.submit(1);
    CHECK(x.started(1));
    CHECK(!x.started(3));
    x.peer_publishes(1);
    CHECK(x.started(3));
}

TEST_CASE("continuing operations do not overtake a slow one by the depth") {
    Exchanges x;
    x.submit(0);
    x.submit(1, true, 1h, 1);  // and 2, which would let the tensor of 0 go
    CHECK(x.started(0));
    CHECK(!x.started(1));
    x.peer_publishes(0);
    CHECK(x.started(1));
}

TEST_CASE("an abandoned sequence number blocks no other call") {
    Exchanges x;
    x.submit(0, true, 1h, 2);
    x.submit(3);
    x.peer_publishes(0);
    CHECK(!x.started(3));
    x.streams.release(kStream, 1, x.network.now());
    x.pass(10ms);
    CHECK(!x.started(4));
    CHECK(x.started(3));
    x.submit(4);
    CHECK(!x.started(4));
    x.streams.release(kStream, 2, x.network.now());
    x.streams.release(kStream, 2, x.network.now());
    x.pass(10ms);
    CHECK(x.started(4));
}

TEST_CASE("a failed call is published in order and occupies no slot") {
    Exchanges x;
    x.submit(0);
    x.submit(1);
    x.fail(2);
    x.submit(3);
    CHECK(!x.told_of_failure(2));  // its turn comes when 0 has ended
    x.peer_publishes(0);
    CHECK(x.told_of_failure(2));
    CHECK(!x.started(3));
    x.peer_publishes(1);
    CHECK(x.started(3));
    CHECK(x.completion(2) == nullptr);  // its caller knows
    x.peer_publishes(3);
    CHECK(x.completion(3)->status == OperationStatus::kDone);
    CHECK(!x.told_of_failure(1));
}

TEST_CASE("a number is used once, by an operation or by a failure, whichever comes first") {
    Exchanges x;
    x.submit(0);
    x.fail(0);
    CHECK(x.content(0) == x.tensor);
    x.fail(1);
    x.submit(1);
    CHECK(x.told_of_failure(1));
    REQUIRE(x.completion(1) != nullptr);
    CHECK(x.completion(1)->status == OperationStatus::kCancelled);
    x.peer_publishes(0);
    CHECK(x.completion(0)->status == OperationStatus::kDone);
}

TEST_CASE("a reserved operation fails at once, a released one never does") {
    Exchanges x;
    x.submit(0, true, 1h, 2);
    x.submit(3);
    x.peer_publishes(0);
    x.fail(1);
    CHECK(x.told_of_failure(1));
    x.streams.release(kStream, 2, x.network.now());
    x.fail(2);
    CHECK(!x.told_of_failure(2));
    CHECK(x.started(3));
}

TEST_CASE("a failure in a closed or missing stream changes nothing") {
    Exchanges x;
    x.streams.close(kStream);
    x.fail(0);
    x.streams.fail(kStream + 1, {{}, {}, 0, wire::TensorErrorCode::kFailed, kWhy}, x.network.now());
    CHECK(!x.retained(0));
}

TEST_CASE("a queued operation ends at its own deadline and names what it waited for") {
    Exchanges x;
    x.submit(0);
    x.submit(1);
    x.submit(2, true, 1s);
    x.submit(3, true, 5s);
    x.pass(2s);
    REQUIRE(x.ended.size() == 1);
    CHECK(x.ended[0].id == 2);
    CHECK(x.ended[0].status == OperationStatus::kDeadlineExceeded);
    CHECK(x.ended[0].detail == "it was queued behind seq=0: rank 1 had not sent its data");
    CHECK(x.ended[0].times.ended < x.network.now());
    CHECK(!x.started(2));
    x.pass(5s);
    REQUIRE(x.completion(3));
    CHECK(x.completion(3)->status == OperationStatus::kDeadlineExceeded);
    CHECK(x.streams.next_deadline() == kNever);
}

TEST_CASE("operations that wait for a dead rank all end at their own deadlines") {
    Exchanges x;
    for (std::uint64_t seq = 0; seq < 20; ++seq) x.submit(seq, true, 1s);
    x.network.path.delay = 1s;  // too late to hear of those that start at the end
    x.pass(1s);
    CHECK(x.ended.size() == 20);
    for (const OperationCompletion& completion : x.ended) {
        CHECK(completion.status == OperationStatus::kDeadlineExceeded);
        CHECK(completion.detail.ends_with("rank 1 had not sent its data"));
    }
}

TEST_CASE("an early result is published in order, with its value at completion") {
    Exchanges x;
    x.submit(0);
    x.submit(1);
    x.submit(2, true, 1s);
    x.submit(3);
    x.pass(2s);
    REQUIRE(x.completion(2));
    std::ranges::fill(x.tensor, std::uint8_t{9});  // the caller's again
    // Not earlier: rank 1 could end operation 2, and drop its tensor of operation 0.
    CHECK(!x.retained(2));
    x.peer_publishes(0);
    CHECK(x.retained(2));
    CHECK(x.content(2) == std::vector<std::uint8_t>(100, 5));
    CHECK(!x.started(2));
    // It counts for those that follow it: 3 is within the depth of 1.
    x.peer_publishes(1);
    CHECK(x.started(3));
    x.peer_publishes(3);
    REQUIRE(x.completion(3));
    CHECK(x.completion(3)->status == OperationStatus::kDone);
    CHECK(x.ended.size() == 4);
}

TEST_CASE("an early end implies nothing about other calls and reserves no number") {
    Exchanges x;
    x.submit(0);
    x.submit(1, false);
    x.submit(2, true, 1s, 1);
    x.pass(2s);
    x.peer_publishes(1);
    x.peer_publishes(0);
    REQUIRE(x.retained(2));
    // Rank 1 may never have started operation 2.
    CHECK(x.retained(0));
    x.submit(4);
    CHECK(x.started(4));
}

TEST_CASE("an operation that ended before its turn ends exactly once") {
    Exchanges x;
    for (std::uint64_t seq = 0; seq < 3; ++seq) x.submit(seq, true, seq < 2 ? 1h : 1s);
    x.pass(2s);
    REQUIRE(x.ended.size() == 1);
    SUBCASE("a cancellation") {
        x.streams.cancel(2, x.network.now());
        x.peer_publishes(0);
        CHECK(x.ended.size() == 2);
        CHECK(x.retained(2));
    }
    SUBCASE("an abort, after which nothing of it is published") {
        x.streams.abort(name("/job"), "rank 1 is gone", x.network.now());
        x.pass(1ms);
        CHECK(x.ended.size() == 3);
        CHECK(!x.retained(2));
    }
    SUBCASE("the end of its group") {
        x.streams.close(kStream);
        x.pass(1ms);
        CHECK(x.ended.size() == 1);
        x.peer_publishes(0);
        CHECK(!x.retained(2));
    }
}

TEST_CASE("an abort ends the operations under its prefix, and no others") {
    Exchanges x;
    constexpr StreamId kOther = 8;
    x.first.produce_at("/job/g1/0", "0");
    x.streams.open(kOther, {name("/job/g1/0")}, kDepth);
    for (std::uint64_t seq = 0; seq < 3; ++seq) x.submit(seq);
    for (OperationId id = 100; id < 103; ++id) {
        OperationSpec spec;
        spec.publication = x.publication(0, id);
        spec.publication->prefix = name("/job/g1/0");
        FetchSpec& fetch = spec.fetches.emplace_back();
        fetch.targets.push_back(
            {name("/job/g1/1/sum.u8/seq=" + std::to_string(id)), name("/n/h1")});
        fetch.segmentation = spec.publication->segmentation;
        fetch.end_segment = 1;
        fetch.into = x.results.emplace_back(x.tensor.size());
        x.streams.submit(kOther, {id, id, true, std::move(spec), 0}, x.network.now());
    }
    x.streams.abort(name("/job/g1"), "rank 1 (h1) was killed", x.network.now());
    x.pass(1ms);
    REQUIRE(x.ended.size() == 3);
    for (const OperationCompletion& completion : x.ended) {
        CHECK(completion.id >= 100);
        CHECK(completion.status == OperationStatus::kAborted);
        CHECK(completion.detail == "rank 1 (h1) was killed");
    }
    // Also when the names differ in the middle of a component.
    x.streams.abort(name("/job/g"), "another group", x.network.now());
    for (std::uint64_t seq = 0; seq < 3; ++seq) x.peer_publishes(seq);
    for (std::uint64_t seq = 0; seq < 3; ++seq) {
        REQUIRE(x.completion(seq));
        CHECK(x.completion(seq)->status == OperationStatus::kDone);
    }
}

TEST_CASE("a closed stream cancels queued operations, finishes started ones and accepts no more") {
    Exchanges x;
    for (std::uint64_t seq = 0; seq < 4; ++seq) x.submit(seq);
    x.streams.close(kStream);
    x.streams.close(kStream);
    x.pass(1ms);
    CHECK(x.ended.size() == 2);
    for (const OperationId id : {2U, 3U}) {
        REQUIRE(x.completion(id));
        CHECK(x.completion(id)->status == OperationStatus::kCancelled);
        CHECK(x.completion(id)->detail == "its group is closed");
    }
    x.peer_publishes(0);
    x.peer_publishes(1);
    for (const OperationId id : {0U, 1U}) {
        REQUIRE(x.completion(id));
        CHECK(x.completion(id)->status == OperationStatus::kDone);
    }
    CHECK(!x.started(2));
    x.submit(4);
    REQUIRE(x.completion(4));
    CHECK(x.completion(4)->status == OperationStatus::kCancelled);
    CHECK(!x.started(4));
    x.streams.release(kStream, 5, x.network.now());
    x.streams.cancel(4, x.network.now());
    CHECK(x.ended.size() == 5);
}

TEST_CASE("a failed call is published at its turn, and delays no other call") {
    Exchanges x;
    x.fail(0, "rank 0 failed");
    CHECK(x.failure(0) == "rank 0 failed");
    for (std::uint64_t seq = 1; seq < 3; ++seq) x.submit(seq);
    x.fail(3, "rank 0 failed again");
    x.submit(4);
    CHECK(x.started(2));
    // Not earlier: rank 1 could end call 3, and drop its tensor of call 1.
    CHECK(x.failure(3) == "");
    x.peer_publishes(1);
    CHECK(x.failure(3) == "rank 0 failed again");
    CHECK(!x.started(4));
    x.peer_publishes(2);
    CHECK(x.started(4));
}

TEST_CASE("a sequence number belongs to the call or to its failure, whichever used it first") {
    Exchanges x;
    x.submit(0);
    x.fail(0, "too late");
    CHECK(x.failure(0) == "");
    CHECK(x.retained(0));
    x.fail(1, "first");
    x.fail(1, "second");
    CHECK(x.failure(1) == "first");
    x.submit(1);
    REQUIRE(x.completion(1));
    CHECK(x.completion(1)->status == OperationStatus::kCancelled);
    CHECK(!x.started(1));
    x.peer_publishes(0);
    CHECK(x.completion(0)->status == OperationStatus::kDone);
}

TEST_CASE("sequence numbers of a partly failed call keep their order") {
    Exchanges x;
    x.submit(0);
    x.submit(1);
    x.submit(2, true, 1h, 2);  // and 3 and 4
    x.submit(5);
    x.submit(6);
    x.fail(4, "the second half failed");
    x.fail(3, "the first half failed");
    x.peer_publishes(0);
    x.peer_publishes(1);
    x.peer_publishes(2);
    CHECK(x.failure(3) == "the first half failed");
    CHECK(x.failure(4) == "the second half failed");
    CHECK(x.started(5));
    x.peer_publishes(5);
    x.peer_publishes(6);
    for (const OperationId id : {0U, 1U, 2U, 5U, 6U}) {
        REQUIRE(x.completion(id));
        CHECK(x.completion(id)->status == OperationStatus::kDone);
    }
    CHECK(x.ended.size() == 5);
}

TEST_CASE("a failure is dropped when a call that is the depth later has ended on all ranks") {
    Exchanges x;
    x.fail(0, "rank 0 failed");
    for (std::uint64_t seq = 1; seq <= kDepth; ++seq) {
        CHECK(x.failure(0) == "rank 0 failed");
        x.submit(seq);
        x.peer_publishes(seq);
    }
    CHECK(x.failure(0) == "");
}

TEST_CASE("a rank with a different call learns this rank's call, also when there is none") {
    Exchanges x;
    x.first.produce_at("/job/other/0", "0");
    x.streams.open(kStream, {name("/job/g0/0"), name("/job/other/0")}, kDepth);
    OperationSpec fetching;
    fetching.deadline = x.network.now() + 1h;
    x.streams.submit(kStream,
                     {.id = 0, .seq = 0, .spec = std::move(fetching), .call = "rank 0 called b()"},
                     x.network.now());
    CHECK(x.failure(0) == "rank 0 called b()");
    CHECK(x.failure("/job/other/0/max.u8/seq=0") == "rank 0 called b()");

    OperationSpec publishing;
    publishing.deadline = x.network.now() + 1h;
    publishing.publication = x.publication(0, 1);
    x.streams.submit(
        kStream, {.id = 1, .seq = 1, .spec = std::move(publishing), .call = "rank 0 called c()"},
        x.network.now());
    CHECK(x.content(1) == x.tensor);
    CHECK(x.failure("/job/other/0/sum.u8/seq=1") == "rank 0 called c()");
}
