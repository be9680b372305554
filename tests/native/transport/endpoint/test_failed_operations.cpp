#include <doctest/doctest.h>

#include <algorithm>

#include "rank_pair.hpp"

using namespace innet;
using namespace innet::testing;

TEST_CASE("another operation under the same number is a mismatch that names the call") {
    for (const bool published_first : {true, false}) {
        CAPTURE(published_first);
        RankPair pair;
        const auto tensor = pattern(100, 8);
        PublicationSpec other = publication(1, 0, tensor);
        other.kind = name("/max.u8");
        other.description = "rank 1: allreduce(max.u8, 100 elements)";
        std::vector<std::uint8_t> into(100);
        if (published_first) {
            pair.second.endpoint().submit(1, publish_only(other), pair.network.now());
        }
        pair.first.endpoint().submit(2, fetch_only(fetch(1, 0, into)), pair.network.now());
        pair.network.run_for(10ms);
        if (!published_first) {
            CHECK(pair.first.completion(2) == nullptr);
            pair.second.endpoint().submit(1, publish_only(other), pair.network.now());
        }
        REQUIRE(pair.run_until_complete(pair.first, 2));
        CHECK(pair.first.completion(2)->status == OperationStatus::kMismatch);
        CHECK(pair.first.completion(2)->detail == "rank 1: allreduce(max.u8, 100 elements)");
        CHECK(pair.first.pending() == 0);
    }
}

TEST_CASE("a fetch of a failed call's Data ends with the cause, before or after the failure") {
    for (const bool failed_first : {true, false}) {
        CAPTURE(failed_first);
        RankPair pair;
        const FailureSpec failure{
            {name("/job/g0/1")}, {}, 0, wire::TensorErrorCode::kFailed, "rank 1 (h1): no memory"};
        std::vector<std::uint8_t> into(100);
        if (failed_first) pair.second.endpoint().fail(failure);
        pair.first.endpoint().submit(1, fetch_only(fetch(1, 0, into)), pair.network.now());
        pair.network.run_for(10ms);
        if (!failed_first) {
            CHECK(pair.first.completion(1) == nullptr);
            pair.second.endpoint().fail(failure);
        }
        REQUIRE(pair.run_until_complete(pair.first, 1));
        CHECK(pair.first.completion(1)->status == OperationStatus::kPeerFailed);
        CHECK(pair.first.completion(1)->detail == "rank 1 (h1): no memory");
        CHECK(pair.first.pending() == 0);
    }
}

TEST_CASE("a shorter or longer tensor elsewhere is a mismatch that names both lengths") {
    for (const std::size_t theirs : {500U, 1500U, 40'000U}) {
        CAPTURE(theirs);
        RankPair pair;
        const auto tensor = pattern(theirs, 9);
        std::vector<std::uint8_t> into(20'000);
        pair.second.endpoint().submit(1, publish_only(publication(1, 0, tensor)),
                                      pair.network.now());
        pair.first.endpoint().submit(2, fetch_only(fetch(1, 0, into)), pair.network.now());
        REQUIRE(pair.run_until_complete(pair.first, 2));
        const OperationCompletion& end = *pair.first.completion(2);
        CHECK(end.status == OperationStatus::kMismatch);
        CHECK(end.detail.find(std::to_string(theirs) + " elements") != std::string::npos);
        CHECK(pair.first.pending() == 0);
        CHECK(pair.first.endpoint().next_deadline() == kNever);
    }
}

TEST_CASE("at the deadline, the error names the late ranks") {
    RankPair pair;
    Host& third = pair.network.add_host("/n/h12");
    third.produce_at("/job/g0/12", "rank 12");
    std::vector<std::uint8_t> one(3000);
    std::vector<std::uint8_t> two(3000);
    OperationSpec spec = fetch_only(fetch(12, 0, one), pair.network.now() + 3s);
    spec.fetches.push_back(fetch(1, 0, two));
    pair.first.endpoint().submit(1, std::move(spec), pair.network.now());
    REQUIRE(pair.run_until_complete(pair.first, 1));
    CHECK(pair.network.now() == at(3s));
    CHECK(pair.first.completion(1)->status == OperationStatus::kDeadlineExceeded);
    CHECK(pair.first.completion(1)->detail == "rank 1, rank 12 had not sent their data");
    CHECK(pair.first.pending() == 0);
}

TEST_CASE("a silent host ends in an error that names the missing segments and their source") {
    RankPair pair;
    pair.second.unplug();
    std::vector<std::uint8_t> into(3000);
    pair.first.endpoint().submit(1, fetch_only(fetch(1, 4, into), pair.network.now() + 2s),
                                 pair.network.now());
    REQUIRE(pair.run_until_complete(pair.first, 1));
    const OperationCompletion& end = *pair.first.completion(1);
    CHECK(end.status == OperationStatus::kDeadlineExceeded);
    CHECK(end.detail ==
          "3 segments of /job/g0/1/sum.u8/seq=4 (from seg=0) had no answer from /n/h1");
    // Back-off: three segments asked for two seconds, up to half a second apart.
    CHECK(pair.counters().interests_expressed < 40);
    CHECK(pair.first.pending() == 0);
}

TEST_CASE("a rank that registers late causes no error before the deadline") {
    VirtualNetwork network({});
    Host& first = network.add_host("/n/h0");
    Host& second = network.add_host("/n/h1");
    const auto tensor = pattern(3000, 12);
    std::vector<std::uint8_t> into(3000);
    first.endpoint().submit(1, fetch_only(fetch(1, 0, into), network.now() + 5s), network.now());
    network.run_for(1s);
    CHECK(first.completion(1) == nullptr);
    CHECK(first.endpoint().counters().nacks_received < 60);
    second.produce_at("/job/g0/1", "rank 1");
    second.endpoint().submit(2, publish_only(publication(1, 0, tensor)), network.now());
    REQUIRE(network.run_until([&] { return first.completion(1) != nullptr; }, 2s));
    CHECK(first.completion(1)->status == OperationStatus::kDone);
    CHECK(into == tensor);
}

TEST_CASE("cancel leaves no outstanding requests and no timers") {
    RankPair pair;
    std::vector<std::uint8_t> into(100'000);
    pair.first.endpoint().submit(1, fetch_only(fetch(1, 0, into)), pair.network.now());
    pair.network.run_for(700us);
    CHECK(pair.first.pending() > 0);
    pair.first.endpoint().cancel(1, pair.network.now());
    CHECK(pair.first.completion(1)->status == OperationStatus::kCancelled);
    CHECK(pair.first.pending() == 0);
    CHECK(pair.first.endpoint().next_deadline() == kNever);
    const auto before = into;
    pair.second.endpoint().submit(2, publish_only(publication(1, 0, pattern(100'000, 13))),
                                  pair.network.now());
    pair.network.run_for(1s);
    CHECK(into == before);
}

TEST_CASE("queued Interests are sent when the operation that filled the window is cancelled") {
    RankPair pair;
    std::vector<std::uint8_t> never(50'000);
    std::vector<std::uint8_t> there(1000);
    const auto data = pattern(1000, 3);
    pair.second.endpoint().submit(1, publish_only(publication(1, 9, data)), pair.network.now());
    pair.first.endpoint().submit(2, fetch_only(fetch(1, 7, never)), pair.network.now());
    pair.first.endpoint().submit(3, fetch_only(fetch(1, 9, there)), pair.network.now());
    const std::size_t window = pair.first.expressed_uris.size();
    CHECK(window == EndpointOptions{}.initial_window);

    pair.first.endpoint().cancel(2, pair.network.now());
    CHECK(pair.first.expressed_uris.size() == window + 1);
    REQUIRE(pair.run_until_complete(pair.first, 3));
    CHECK(there == data);
}

TEST_CASE("abort ends every local operation and fails requests for its tensors") {
    RankPair pair;
    const auto tensor = pattern(3000, 14);
    std::vector<std::uint8_t> into(3000);
    OperationSpec spec = publish_only(publication(1, 0, tensor));
    spec.fetches.push_back(fetch(0, 0, into));
    pair.second.endpoint().submit(1, std::move(spec), pair.network.now());
    pair.network.run_for(5ms);
    pair.second.endpoint().abort(wire::Name(), "rank 1: the optimiser failed", pair.network.now());
    CHECK(pair.second.completion(1)->status == OperationStatus::kAborted);
    CHECK(pair.second.pending() == 0);
    std::vector<std::uint8_t> other(3000);
    pair.first.endpoint().submit(2, fetch_only(fetch(1, 0, other)), pair.network.now());
    REQUIRE(pair.run_until_complete(pair.first, 2));
    CHECK(pair.first.completion(2)->status == OperationStatus::kAborted);
    CHECK(pair.first.completion(2)->detail == "rank 1: the optimiser failed");
}

TEST_CASE("an impossible operation is refused at once with a reason") {
    RankPair pair;
    const auto tensor = pattern(100, 17);
    std::vector<std::uint8_t> into(100);
    const auto refused = [&](OperationSpec spec) {
        static OperationId id = 100;
        pair.first.endpoint().submit(++id, std::move(spec), pair.network.now());
        const OperationCompletion* end = pair.first.completion(id);
        REQUIRE(end != nullptr);
        CHECK(end->status == OperationStatus::kAborted);
        return end->detail;
    };
    CHECK(refused(publish_only(publication(5, 0, tensor))).find("not registered") !=
          std::string::npos);
    PublicationSpec wrong_size = publication(0, 0, tensor);
    wrong_size.segmentation.block_bytes = 99;
    CHECK(refused(publish_only(wrong_size)).find("100 bytes") != std::string::npos);
    FetchSpec wrong_buffer = fetch(1, 0, into);
    wrong_buffer.into = std::span(into).first(50);
    CHECK(refused(fetch_only(wrong_buffer)).find("50 bytes") != std::string::npos);
    FetchSpec no_target = fetch(1, 0, into);
    no_target.targets.clear();
    CHECK(refused(fetch_only(no_target)).find("target") != std::string::npos);
    pair.first.endpoint().submit(1, publish_only(publication(0, 0, tensor)), pair.network.now());
    CHECK(pair.first.completion(1)->status == OperationStatus::kDone);
    CHECK(refused(publish_only(publication(0, 0, tensor))).find("published already") !=
          std::string::npos);
    CHECK(pair.first.expressed_uris.empty());
}
