#include <doctest/doctest.h>

#include <algorithm>

#include "rank_pair.hpp"

using namespace innet;
using namespace innet::testing;

TEST_CASE("both ranks publish and fetch each other's tensor") {
    RankPair pair;
    const auto a = pattern(50'000, 1);
    const auto b = pattern(50'000, 2);
    std::vector<std::uint8_t> at_first(50'000);
    std::vector<std::uint8_t> at_second(50'000);
    OperationSpec one = publish_only(publication(0, 7, a));
    one.fetches.push_back(fetch(1, 7, at_first));
    OperationSpec two = publish_only(publication(1, 7, b));
    two.fetches.push_back(fetch(0, 7, at_second));
    pair.first.endpoint().submit(1, std::move(one), pair.network.now());
    pair.second.endpoint().submit(2, std::move(two), pair.network.now());
    REQUIRE(pair.run_until_complete(pair.first, 1));
    REQUIRE(pair.run_until_complete(pair.second, 2));
    CHECK(pair.first.completion(1)->status == OperationStatus::kDone);
    CHECK(at_first == b);
    CHECK(at_second == a);
    CHECK(pair.first.pending() == 0);
    CHECK(pair.counters().segments_fetched == 50);
    CHECK(pair.counters().segments_served == 50);
    CHECK(pair.counters().interests_expressed == 50);
}

TEST_CASE("segments of an endpoint with a virtual scale represent more bytes by that factor") {
    VirtualNetwork network({});
    EndpointOptions options;
    options.virtual_scale = 1000;
    Host& host = network.add_host("/n/h0", options);
    host.produce_at("/job/g0/0", "rank 0");
    const auto tensor = pattern(1500, 0);
    host.endpoint().submit(1, publish_only(publication(0, 0, tensor)), network.now());
    for (const std::uint64_t segment : {0U, 1U}) {
        wire::Name asked = name("/job/g0/0/sum.u8/seq=0/seg=" + std::to_string(segment));
        std::vector<std::uint8_t> packet(512);
        wire::InterestFields fields;
        fields.name = asked.view();
        packet.resize(wire::encode_interest(fields, packet));
        const auto production =
            host.endpoint().produce(*wire::InterestView::parse(packet), true, network.now());
        REQUIRE(production.kind == Production::Kind::kData);
        CHECK(production.data.virtual_bytes() == (segment == 0 ? 999'000 : 499'500));
    }
}

TEST_CASE("a one-segment operation sends its Interests at once, before any timer") {
    RankPair pair;
    std::vector<std::uint8_t> into(4);
    pair.first.endpoint().submit(1, fetch_only(fetch(1, 3, into)), pair.network.now());
    REQUIRE(pair.first.expressed_uris.size() == 1);
    CHECK(pair.first.expressed_uris[0] == "/job/g0/1/sum.u8/seq=3/seg=0 via /n/h1");
}

TEST_CASE("a tensor without elements has one empty segment") {
    RankPair pair;
    std::vector<std::uint8_t> nothing;
    pair.second.endpoint().submit(1, publish_only(publication(1, 0, nothing)), pair.network.now());
    pair.first.endpoint().submit(2, fetch_only(fetch(1, 0, nothing)), pair.network.now());
    REQUIRE(pair.run_until_complete(pair.first, 2));
    CHECK(pair.first.completion(2)->status == OperationStatus::kDone);
    CHECK(pair.counters().segments_fetched == 1);
}

TEST_CASE("any mixture of loss, reordering and duplicates ends with the right bytes") {
    for (std::uint32_t seed = 0; seed < 40; ++seed) {
        CAPTURE(seed);
        PathModel path;
        path.loss = 0.01 * (seed % 25);
        path.duplicates = seed % 3 == 0 ? 0.2 : 0;
        path.jitter = seed % 2 == 0 ? Duration(3ms) : Duration(0);
        path.rate_bps = seed % 4 == 1 ? 100e6 : 0;
        RankPair pair(path, seed);
        const std::size_t size = 1 + (seed * 7919) % 120'000;
        const auto tensor = pattern(size, static_cast<std::uint8_t>(seed));
        std::vector<std::uint8_t> into(size);
        const bool late = seed % 5 == 0;
        pair.first.endpoint().submit(1, fetch_only(fetch(1, 5, into)), pair.network.now());
        if (late) pair.network.run_for(1500ms);
        pair.second.endpoint().submit(2, publish_only(publication(1, 5, tensor)),
                                      pair.network.now());
        REQUIRE(pair.run_until_complete(pair.first, 1));
        CHECK(pair.first.completion(1)->status == OperationStatus::kDone);
        CHECK(into == tensor);
        CHECK(pair.first.pending() == 0);
        CHECK(pair.first.endpoint().next_deadline() == kNever);
    }
}

TEST_CASE("a late rank costs few refreshes, shrinks nothing, and is answered at once") {
    RankPair pair;
    const auto tensor = pattern(40'000, 3);
    std::vector<std::uint8_t> into(40'000);
    pair.first.endpoint().submit(1, fetch_only(fetch(1, 0, into)), pair.network.now());
    pair.network.run_for(850ms);
    const auto asked_first = pair.counters().interests_expressed;
    CHECK(asked_first == pair.counters().holds_received);
    CHECK(asked_first >= 16);
    CHECK(asked_first <= 32 + 8);
    pair.network.run_for(2000ms);
    CHECK(pair.counters().refreshes_of_held <= 3 * asked_first);
    CHECK(pair.counters().retransmissions_by_gap == 0);
    CHECK(pair.counters().retransmissions_by_timeout == 0);

    const TimePoint published = pair.network.now();
    pair.second.endpoint().submit(2, publish_only(publication(1, 0, tensor)), published);
    REQUIRE(pair.run_until_complete(pair.first, 1));
    CHECK(into == tensor);
    CHECK(pair.network.now() - published < 5ms);
    CHECK(pair.counters().retransmissions_by_timeout == 0);
}

TEST_CASE("operations with available data overtake one that waits for a late rank") {
    RankPair pair;
    const auto tensor = pattern(200'000, 4);
    std::vector<std::uint8_t> late(200'000);
    std::vector<std::uint8_t> ready(200'000);
    pair.second.endpoint().submit(1, publish_only(publication(1, 1, tensor)), pair.network.now());
    pair.first.endpoint().submit(2, fetch_only(fetch(1, 0, late)), pair.network.now());
    pair.network.run_for(100ms);
    const auto before = pair.counters().interests_expressed;
    pair.first.endpoint().submit(3, fetch_only(fetch(1, 1, ready)), pair.network.now());
    REQUIRE(pair.run_until_complete(pair.first, 3, 100ms));
    CHECK(ready == tensor);
    CHECK(pair.first.completion(2) == nullptr);
    // The held requests were not repeated because others were answered.
    CHECK(pair.counters().interests_expressed - before <= 200 + 64);
    CHECK(pair.counters().retransmissions_by_gap == 0);
}

TEST_CASE("in place, other requesters still receive the earlier bytes") {
    RankPair pair;
    const auto a = pattern(30'000, 5);
    const auto b = pattern(30'000, 6);
    auto mine = a;
    OperationSpec spec = publish_only(publication(0, 0, mine));
    spec.fetches.push_back(fetch(1, 0, mine));
    spec.in_place = true;
    pair.first.endpoint().submit(1, std::move(spec), pair.network.now());
    pair.second.endpoint().submit(2, publish_only(publication(1, 0, b)), pair.network.now());
    REQUIRE(pair.run_until_complete(pair.first, 1));
    CHECK(mine == b);
    std::ranges::fill(mine, std::uint8_t{0xee});

    std::vector<std::uint8_t> into(30'000);
    pair.second.endpoint().submit(3, fetch_only(fetch(0, 0, into)), pair.network.now());
    REQUIRE(pair.run_until_complete(pair.second, 3));
    CHECK(into == a);
}

TEST_CASE("after completion the caller may free its tensor; retire frees the retained copy") {
    RankPair pair;
    auto tensor = std::make_unique<std::vector<std::uint8_t>>(pattern(30'000, 7));
    const auto original = *tensor;
    pair.second.endpoint().submit(1, publish_only(publication(1, 0, *tensor)), pair.network.now());
    REQUIRE(pair.second.completion(1) != nullptr);
    tensor.reset();
    std::vector<std::uint8_t> into(30'000);
    pair.first.endpoint().submit(2, fetch_only(fetch(1, 0, into)), pair.network.now());
    REQUIRE(pair.run_until_complete(pair.first, 2));
    CHECK(into == original);
    CHECK(pair.second.endpoint().counters().retained_bytes >= 30'000);
    CHECK(pair.second.pool().bytes_in_use() >= 30'000);

    pair.second.endpoint().retire(name("/job/g0/1"), 0);
    CHECK(pair.second.endpoint().counters().retained_bytes == 0);
    CHECK(pair.second.pool().bytes_in_use() == 0);

    pair.first.endpoint().submit(3, fetch_only(fetch(1, 0, into), pair.network.now() + 200ms),
                                 pair.network.now());
    REQUIRE(pair.run_until_complete(pair.first, 3));
    CHECK(pair.first.completion(3)->status == OperationStatus::kNoRoute);
}

TEST_CASE("each rank keeps only the part of a sum that another may lack at the end") {
    enum class Result { kBeside, kInPlace, kInPlaceUnsaid };
    for (const Result result : {Result::kBeside, Result::kInPlace, Result::kInPlaceUnsaid}) {
        CAPTURE(static_cast<int>(result));
        const bool in_place = result != Result::kBeside;
        RankPair pair({}, 1, {.max_window = 16});
        const std::vector<std::vector<std::uint8_t>> tensors{pattern(200'000, 8),
                                                             pattern(200'000, 9)};
        std::vector<std::vector<std::uint8_t>> mine = tensors;
        std::vector<std::vector<std::uint8_t>> into = tensors;
        std::size_t lent = 0;
        pair.first.on_offer = [&](const PacketRef& packet) {
            lent += packet.parts()[1].empty() ? 0 : 1;
        };
        for (const std::size_t rank : {0, 1}) {
            pair.begin_ahead(static_cast<int>(rank), mine[rank], in_place ? mine[rank] : into[rank],
                             result == Result::kInPlace);
        }
        REQUIRE(pair.run_until_complete(pair.first, 1));
        REQUIRE(pair.run_until_complete(pair.second, 1));
        CHECK((lent > 0) == (result == Result::kBeside));
        CHECK((in_place ? mine : into)[0] == tensors[1]);
        CHECK((in_place ? mine : into)[1] == tensors[0]);
        for (auto& tensor : mine) std::ranges::fill(tensor, std::uint8_t{0});

        const std::uint64_t kept = pair.counters().retained_bytes;
        CHECK(kept > 0);
        CHECK(kept < 100'000);  // 50 of 200 segments, each in 2 KiB
        std::vector<std::uint8_t> last(1000);
        FetchSpec of_last = fetch(0, 0, into[0]);
        of_last.first_segment = 199;
        of_last.into = last;
        pair.second.endpoint().submit(2, fetch_only(of_last), pair.network.now());
        REQUIRE(pair.run_until_complete(pair.second, 2));
        CHECK(std::ranges::equal(last, std::span(tensors[0]).last(1000)));
        FetchSpec of_first = fetch(0, 0, into[0]);
        of_first.end_segment = 1;
        of_first.into = last;
        pair.second.endpoint().submit(3, fetch_only(of_first, pair.network.now() + 200ms),
                                      pair.network.now());
        REQUIRE(pair.run_until_complete(pair.second, 3));
        CHECK(pair.second.completion(3)->status == OperationStatus::kNoRoute);
    }
}

TEST_CASE("packets in flight keep the caller's bytes, however their operation ends") {
    enum class End { kDone, kCancelled, kOverdue, kAborted, kWithoutProducer };
    for (const End end :
         {End::kDone, End::kCancelled, End::kOverdue, End::kAborted, End::kWithoutProducer}) {
        CAPTURE(static_cast<int>(end));
        RankPair pair({}, 1, {.max_window = 16});
        const auto original = pattern(200'000, 8);
        auto mine = std::make_unique<std::vector<std::uint8_t>>(original);
        const auto others = pattern(200'000, 9);
        std::vector<std::vector<std::uint8_t>> into(2, original);
        std::vector<PacketRef> under_way;
        pair.first.on_offer = [&](const PacketRef& packet) { under_way.push_back(packet); };
        pair.begin_ahead(0, *mine, into[0], false,
                         end == End::kOverdue ? pair.network.now() + 300ms : kNever);
        if (end == End::kDone) pair.begin_ahead(1, others, into[1]);
        pair.network.run_for(100ms);
        REQUIRE(!under_way.empty());
        Endpoint& endpoint = pair.first.endpoint();
        if (end == End::kAborted) endpoint.abort(name("/job/g0"), "gave up", pair.network.now());
        if (end == End::kWithoutProducer) endpoint.unregister_producer(name("/job/g0/0"));
        if (end == End::kCancelled || end == End::kWithoutProducer) {
            CHECK(under_way.back().parts()[1].data() >= mine->data());
            endpoint.cancel(1, pair.network.now());
        }
        REQUIRE(pair.run_until_complete(pair.first, 1));
        CHECK((pair.first.completion(1)->status == OperationStatus::kDone) == (end == End::kDone));
        mine.reset();
        for (const PacketRef& packet : under_way) {
            const auto data = wire::DataView::parse(packet.bytes());
            REQUIRE(data);
            const auto segment = wire::read_nonnegative(data->name().last_component().value);
            REQUIRE(segment);
            CHECK(std::ranges::equal(data->content(),
                                     std::span(original).subspan(1000 * *segment, 1000)));
        }
    }
}

TEST_CASE("segments of unequal sizes are placed like full ones, with their sizes") {
    RankPair pair(PathModel{.loss = 0.05});
    const auto tensor = pattern(2'000, 3);
    const std::vector<std::uint64_t> ends{10, 10, 1010, 2000};
    PublicationSpec offered = publication(1, 4, tensor);
    offered.segmentation = cut(4'000);
    offered.segment_ends = ends;
    offered.tensor_elements = 77;
    pair.second.endpoint().submit(1, publish_only(std::move(offered)), pair.network.now());

    std::vector<std::uint8_t> into(4'000);
    std::vector<std::uint32_t> sizes(4);
    FetchSpec wanted = fetch(1, 4, into);
    wanted.tensor_elements = 77;
    wanted.sizes = sizes;
    pair.first.endpoint().submit(1, fetch_only(wanted), pair.network.now());
    REQUIRE(pair.run_until_complete(pair.first, 1));
    CHECK(pair.first.completion(1)->status == OperationStatus::kDone);
    CHECK(sizes == std::vector<std::uint32_t>{10, 0, 1000, 990});
    const auto landed = std::span(into);
    CHECK(std::ranges::equal(landed.first(10), std::span(tensor).first(10)));
    CHECK(std::ranges::equal(landed.subspan(2'000, 1'000), std::span(tensor).subspan(10, 1'000)));
    CHECK(std::ranges::equal(landed.subspan(3'000, 990), std::span(tensor).subspan(1'010)));

    // Without room for sizes, a short segment is a mismatch.
    wanted.sizes = {};
    pair.first.endpoint().submit(2, fetch_only(std::move(wanted)), pair.network.now());
    REQUIRE(pair.run_until_complete(pair.first, 2));
    CHECK(pair.first.completion(2)->status == OperationStatus::kMismatch);
}

TEST_CASE("a group can be closed while its segments are still being sent ahead") {
    RankPair pair;
    const auto tensor = pattern(600'000, 4);
    std::vector<std::uint8_t> into(600'000);
    OperationSpec sum = publish_only(publication(0, 1, tensor));
    sum.publication->offered = true;
    sum.fetches.push_back(fetch(1, 1, into));
    pair.first.endpoint().submit(1, std::move(sum), pair.network.now());
    const auto requested = pair.counters().interests_expressed;
    CHECK(requested < 600);
    CHECK(pair.counters().segments_served == requested);  // sent ahead

    pair.first.endpoint().unregister_producer(name("/job/g0/0"));
    pair.second.endpoint().submit(1, publish_only(publication(1, 1, tensor)), pair.network.now());
    REQUIRE(pair.run_until_complete(pair.first, 1));
    CHECK(pair.first.completion(1)->status == OperationStatus::kDone);
    CHECK(pair.counters().segments_served == requested);
}

TEST_CASE("messages and collectives of one rank can have the same sequence numbers") {
    RankPair pair;
    const auto tensor = pattern(100, 10);
    std::vector<std::uint8_t> into(100);
    FetchSpec receive = fetch(1, 0, into);
    receive.targets[0].name = name("/job/g0/1/p2p.u8/0/5/seq=0");
    pair.first.endpoint().submit(1, fetch_only(receive), pair.network.now());
    pair.second.endpoint().submit(2, publish_only(publication(1, 0, pattern(100, 11))),
                                  pair.network.now());
    pair.network.run_for(10ms);
    CHECK(pair.first.completion(1) == nullptr);
    PublicationSpec message = publication(1, 0, tensor);
    message.kind = name("/p2p.u8/0/5");
    message.exclusive_seq = false;
    pair.second.endpoint().submit(3, publish_only(message), pair.network.now());
    pair.second.endpoint().retire(name("/job/g0/1"), 0);
    REQUIRE(pair.run_until_complete(pair.first, 1));
    CHECK(into == tensor);
}

TEST_CASE("all fetches of a node together stay within its credit") {
    constexpr std::uint64_t kCredit = 3000;
    EndpointOptions options;
    options.receive_credit_bytes = kCredit;
    RankPair pair({}, 1, options);
    const auto data = pattern(50'000, 3);
    std::vector<std::uint8_t> one(50'000);
    std::vector<std::uint8_t> two(50'000);
    pair.second.endpoint().submit(1, publish_only(publication(1, 0, data)), pair.network.now());
    pair.second.endpoint().submit(2, publish_only(publication(1, 1, data)), pair.network.now());
    pair.first.endpoint().submit(3, fetch_only(fetch(1, 0, one)), pair.network.now());
    pair.first.endpoint().submit(4, fetch_only(fetch(1, 1, two)), pair.network.now());
    const std::size_t asked = pair.first.expressed_uris.size();
    CHECK(asked > 0);
    CHECK(asked < EndpointOptions{}.initial_window);
    REQUIRE(pair.run_until_complete(pair.first, 3));
    REQUIRE(pair.run_until_complete(pair.first, 4));
    CHECK(one == data);
    CHECK(two == data);
}

TEST_CASE("a credit without a rate grows by what fills a long path") {
    EndpointOptions options;
    options.receive_credit_bytes = 3000;
    const auto data = pattern(400'000, 3);
    const auto fetches_within = [&](double rate_bps, Duration limit) {
        options.receive_rate_bps = rate_bps;
        RankPair pair({.delay = 5ms}, 1, options);
        std::vector<std::uint8_t> into(data.size());
        pair.second.endpoint().submit(1, publish_only(publication(1, 0, data)), pair.network.now());
        pair.first.endpoint().submit(2, fetch_only(fetch(1, 0, into)), pair.network.now());
        return pair.run_until_complete(pair.first, 2, limit);
    };
    // Three or four segments a round trip take 1 s.
    CHECK(!fetches_within(1e9, 700ms));
    CHECK(fetches_within(0, 700ms));
}

TEST_CASE("two operations that fetch the same names both end") {
    RankPair pair({.loss = 0.05});
    const auto tensor = pattern(60'000, 15);
    std::vector<std::uint8_t> one(60'000);
    std::vector<std::uint8_t> two(60'000);
    pair.first.endpoint().submit(1, fetch_only(fetch(1, 0, one)), pair.network.now());
    pair.first.endpoint().submit(2, fetch_only(fetch(1, 0, two)), pair.network.now());
    pair.first.endpoint().submit(3, fetch_only(fetch(1, 0, two)), pair.network.now());
    pair.network.run_for(1ms);
    pair.first.endpoint().cancel(3, pair.network.now());
    pair.second.endpoint().submit(4, publish_only(publication(1, 0, tensor)), pair.network.now());
    REQUIRE(pair.run_until_complete(pair.first, 1));
    REQUIRE(pair.run_until_complete(pair.first, 2));
    CHECK(one == tensor);
    CHECK(two == tensor);
    CHECK(pair.first.pending() == 0);
}

TEST_CASE("segments are spread over targets by segment or by block") {
    for (const ShardRule rule : {ShardRule::kSegmentModulo, ShardRule::kBlock}) {
        VirtualNetwork network({});
        std::vector<Host*> hosts;
        const auto tensor = pattern(40'000, 16);
        for (int rank = 0; rank < 4; ++rank) {
            const std::string number = std::to_string(rank);
            hosts.push_back(&network.add_host("/n/h" + number));
            hosts.back()->produce_at("/job/g0/" + number, number);
            PublicationSpec spec = publication(rank, 0, tensor);
            spec.segmentation = {5, 8000, 1000};
            hosts.back()->endpoint().submit(1, publish_only(spec), network.now());
        }
        Host& requester = network.add_host("/n/h9");
        std::vector<std::uint8_t> into(36'000);
        FetchSpec spec = fetch(0, 0, into);
        for (int rank = 1; rank < 4; ++rank) spec.targets.push_back(fetch(rank, 0, {}).targets[0]);
        spec.segmentation = {5, 8000, 1000};
        spec.shard_rule = rule;
        spec.first_segment = 3;
        spec.end_segment = 39;
        spec.tensor_elements = 40'000;
        requester.endpoint().submit(2, fetch_only(spec), network.now());
        REQUIRE(network.run_until([&] { return requester.completion(2) != nullptr; }, 1s));
        CHECK(requester.completion(2)->status == OperationStatus::kDone);
        CHECK(std::ranges::equal(into, std::span(tensor).subspan(3000, 36'000)));
        const auto served = [&](int rank) {
            return hosts[static_cast<std::size_t>(rank)]->endpoint().counters().segments_served;
        };
        if (rule == ShardRule::kSegmentModulo) {
            for (int rank = 0; rank < 4; ++rank) CHECK(served(rank) == 9);
        } else {
            CHECK(served(0) == 5 + 7);  // the rest of block 0, and block 4 without its last
            CHECK(served(1) == 8);
        }
    }
}
