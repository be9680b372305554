#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>

#include "switch_emulator/tables/content_store.hpp"
#include "switch_emulator/tables/lru.hpp"
#include "switch_emulator/tables/s3fifo.hpp"
#include "tests/native/support/elements.hpp"

using namespace innet;
using namespace std::chrono_literals;
using tables::ContentStore;
using tables::NamePrefixes;

namespace {

enum class Policy : std::uint8_t { kLru, kS3Fifo };

struct Cache {
    Cache(std::size_t capacity_bytes, Policy policy = Policy::kLru)
        : store(capacity_bytes, maker(policy), pool) {}

    static tables::PolicyMaker maker(Policy policy) {
        return [policy](std::size_t capacity_bytes) -> std::unique_ptr<tables::EvictionPolicy> {
            if (policy == Policy::kLru) return std::make_unique<tables::Lru>();
            return std::make_unique<tables::S3Fifo>(capacity_bytes);
        };
    }

    PacketRef make_data(std::string_view uri, std::size_t content_size = 100,
                        Duration freshness = Duration(0)) {
        const wire::Name name = wire::Name::from_uri(uri).value();
        wire::DataFields fields;
        fields.name = name.view();
        fields.freshness = freshness;
        PacketRef packet = pool.allocate(content_size + 300);
        packet.truncate(wire::encode_data(fields, content_size, 32, packet.writable()).size);
        REQUIRE(packet.size() > 0);
        return packet;
    }

    void insert(const PacketRef& packet, jobs::JobId job = jobs::kNoJob) {
        const auto data = wire::DataView::parse(packet.bytes());
        REQUIRE(data);
        store.insert(*data, NamePrefixes(data->name()), packet, job, now);
    }
    void insert(std::string_view uri, std::size_t content_size = 100) {
        insert(make_data(uri, content_size));
    }

    /// Name of the Data that answers; empty without one.
    std::string find(std::string_view uri, bool can_be_prefix = false, bool must_be_fresh = false,
                     ContentStore::Answers answers = ContentStore::Answers::kVerified) {
        const wire::Name name = wire::Name::from_uri(uri).value();
        std::vector<std::uint8_t> buffer(512);
        wire::InterestFields fields;
        fields.name = name.view();
        fields.can_be_prefix = can_be_prefix;
        fields.must_be_fresh = must_be_fresh;
        buffer.resize(wire::encode_interest(fields, buffer));
        const auto interest = wire::InterestView::parse(buffer);
        REQUIRE(interest);
        const PacketRef* found =
            store.find(*interest, NamePrefixes(interest->name()), now, answers).packet;
        return found == nullptr ? "" : wire::DataView::parse(found->bytes())->name().to_uri();
    }
    bool has(std::string_view uri) { return !find(uri).empty(); }

    PacketPool pool;
    ContentStore store;
    TimePoint now{std::chrono::hours(1)};
};

/// What objects of the default size take, which need so many nodes for prefixes of their names.
std::size_t charge_of(std::size_t objects, std::size_t prefixes) {
    Cache cache(1 << 20);
    cache.insert("/x/0");
    const std::size_t with_prefix = cache.store.size_bytes();
    cache.insert("/x/1");
    const std::size_t one = cache.store.size_bytes() - with_prefix;
    return objects * one + prefixes * (with_prefix - one);
}

}  // namespace

TEST_CASE("a name matches its own Data only") {
    Cache cache(1 << 20);
    cache.insert("/a/b/c");
    CHECK(cache.has("/a/b/c"));
    CHECK_FALSE(cache.has("/a/b"));
    CHECK_FALSE(cache.has("/a/b/c/d"));
    CHECK_FALSE(cache.has("/a/b/d"));
}

TEST_CASE("CanBePrefix finds Data below a name, at any depth") {
    Cache cache(1 << 20);
    cache.insert("/a/b/c/d");
    CHECK(cache.find("/a", true) == "/a/b/c/d");
    CHECK(cache.find("/a/b/c/d", true) == "/a/b/c/d");
    CHECK(cache.find("/a/c", true).empty());
}

TEST_CASE("CanBePrefix with MustBeFresh skips stale Data") {
    Cache cache(1 << 20);
    cache.insert(cache.make_data("/a/v1", 10, 10ms));
    cache.insert(cache.make_data("/a/v2", 10, 1s));
    cache.insert(cache.make_data("/a/v3", 10));
    cache.now += 100ms;
    CHECK(cache.find("/a", true, true) == "/a/v2");
    cache.now += 1s;
    CHECK(cache.find("/a", true, true).empty());
    CHECK_FALSE(cache.find("/a", true).empty());
}

TEST_CASE("erasing removes only Data below a name") {
    for (const Policy policy : {Policy::kLru, Policy::kS3Fifo}) {
        Cache cache(1 << 20, policy);
        for (const char* name : {"/a/g1/0/1", "/a/g1/0/2", "/a/g1/0-3/1", "/a/g1", "/a/g2/0/1"}) {
            cache.insert(name);
        }
        CHECK(cache.store.drop_below(wire::Name::from_uri("/a/g1").value().view()) == 4);
        CHECK(cache.find("/a/g1", true).empty());
        CHECK(cache.has("/a/g2/0/1"));
        CHECK(cache.store.entries() == 1);
        CHECK(cache.store.evictions() == 0);
        CHECK(cache.store.drop_below(wire::Name::from_uri("/a/g1").value().view()) == 0);
        CHECK(cache.store.drop_below(wire::Name::from_uri("/a").value().view()) == 1);
        CHECK(cache.store.size_bytes() == 0);
        cache.insert("/a/g1/0/1");
        CHECK(cache.has("/a/g1/0/1"));
    }
}

TEST_CASE("a store without room keeps nothing") {
    Cache cache(0);
    cache.insert("/a");
    CHECK_FALSE(cache.has("/a"));
    Cache tiny(100);
    tiny.insert("/a");
    CHECK(tiny.store.entries() == 0);
}

TEST_CASE("inserting the same name replaces the entry") {
    Cache cache(1 << 20);
    cache.insert("/a", 200);
    const std::size_t before = cache.store.size_bytes();
    cache.insert("/a", 200);
    CHECK(cache.store.entries() == 1);
    CHECK(cache.store.size_bytes() == before);
}

TEST_CASE("the limit holds for real memory, for any insertions and requests") {
    for (const Policy policy : {Policy::kLru, Policy::kS3Fifo}) {
        constexpr std::size_t kCapacity = 100'000;
        Cache cache(kCapacity, policy);
        std::mt19937 random(3);
        for (int step = 0; step < 5000; ++step) {
            const std::string uri =
                "/job/" + std::to_string(random() % 20) + "/" + std::to_string(random() % 50);
            if (random() % 2 == 0) {
                cache.insert(uri, random() % 3000);
            } else {
                const std::string found = cache.find(uri);
                REQUIRE((found.empty() || found == uri));
            }
            REQUIRE(cache.store.size_bytes() <= kCapacity);
            REQUIRE(cache.pool.bytes_in_use() <= kCapacity);
        }
        CHECK(cache.store.evictions() > 0);
    }
}

TEST_CASE("prefixes of names count, whoever needs them") {
    const std::string deep = "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20";
    Cache cache(charge_of(10, 210));
    for (int i = 0; i < 1000; ++i) cache.insert("/" + std::to_string(i) + deep);
    CHECK(cache.store.entries() == 10);
    for (int i = 0; i < 1000; ++i) cache.insert("/all" + deep + "/" + std::to_string(i));
    CHECK(cache.store.entries() > 30);
    CHECK(cache.store.size_bytes() <= charge_of(10, 210));
}

TEST_CASE("prefixes count for a job with Data below them") {
    for (const Policy policy : {Policy::kLru, Policy::kS3Fifo}) {
        Cache cache(1 << 20, policy);
        cache.store.set_weight(1, 1);
        cache.store.set_weight(2, 1);
        cache.insert(cache.make_data("/a/b/c/1"), 1);
        cache.insert(cache.make_data("/a/b/c/2"), 2);
        CHECK(cache.store.shares().used(1) == charge_of(1, 3));
        CHECK(cache.store.shares().used(2) == charge_of(1, 0));
        cache.insert(cache.make_data("/a/b"), 2);  // at a node of the first job
        CHECK(cache.store.shares().used(1) == charge_of(1, 2));
        cache.store.remove_job(1);
        CHECK(cache.store.shares().used(1) == 0);
        CHECK(cache.store.shares().used(2) == charge_of(2, 2));
        cache.store.drop_below(wire::Name::from_uri("/a/b/c").value().view());
        CHECK(cache.store.shares().used(2) == charge_of(1, 1));
    }
}

TEST_CASE("what counts for a share is there, for any names, jobs and evictions") {
    for (const Policy policy : {Policy::kLru, Policy::kS3Fifo}) {
        Cache cache(charge_of(60, 60), policy);
        std::mt19937 random(7);
        for (const jobs::JobId job : std::to_array<jobs::JobId>({1, 2, 3}))
            cache.store.set_weight(job, job);
        for (int step = 0; step < 20'000; ++step) {
            std::string uri;
            for (std::size_t depth = 1 + random() % 6; depth > 0; --depth) {
                uri += "/" + std::to_string(random() % 3);
            }
            const auto job = static_cast<jobs::JobId>(1 + random() % 3);
            const auto choice = random() % 100;
            if (choice < 90) {
                cache.insert(cache.make_data(uri, random() % 500), job);
            } else if (choice < 99) {
                cache.store.drop_below(wire::Name::from_uri(uri).value().view());
            } else {
                cache.store.remove_job(job);
                REQUIRE(cache.store.shares().used(job) == 0);
                cache.store.set_weight(job, job);
            }
            REQUIRE(cache.store.size_bytes() <= cache.store.shares().capacity());
        }
        cache.store.clear();
        CHECK(cache.store.size_bytes() == 0);
        for (const jobs::JobId job : std::to_array<jobs::JobId>({1, 2, 3}))
            CHECK(cache.store.shares().used(job) == 0);
    }
}

TEST_CASE("a small packet does not keep a large receive buffer alive") {
    Cache cache(1 << 20);
    const PacketRef data = cache.make_data("/a/b");
    {
        PacketRef buffer = cache.pool.allocate(60000);
        std::ranges::copy(data.bytes(), buffer.writable().begin() + 1000);
        cache.insert(buffer.slice(1000, data.size()));
    }
    CHECK(cache.pool.bytes_in_use() < 10000);
    CHECK(cache.has("/a/b"));
}

TEST_CASE("LRU evicts the least recently used entry") {
    Cache cache(charge_of(3, 1));
    for (const char* uri : {"/x/a", "/x/b", "/x/c"}) cache.insert(uri);
    CHECK(cache.has("/x/a"));
    cache.insert("/x/d");
    CHECK(cache.has("/x/a"));
    CHECK_FALSE(cache.has("/x/b"));
}

TEST_CASE("S3-FIFO keeps requested entries through a scan that empties LRU") {
    const std::size_t capacity = charge_of(100, 2);
    const auto survivors = [&](Policy policy) {
        Cache cache(capacity, policy);
        const auto popular = [](int i) { return "/popular/" + std::to_string(i); };
        for (int i = 0; i < 50; ++i) cache.insert(popular(i));
        for (int round = 0; round < 2; ++round) {
            for (int i = 0; i < 50; ++i) cache.find(popular(i));
        }
        for (int i = 0; i < 1000; ++i) cache.insert("/scan/" + std::to_string(i));
        int kept = 0;
        for (int i = 0; i < 50; ++i) kept += cache.has(popular(i)) ? 1 : 0;
        return kept;
    };
    CHECK(survivors(Policy::kLru) == 0);
    CHECK(survivors(Policy::kS3Fifo) == 50);
}

TEST_CASE("S3-FIFO puts an object that returns into the main queue") {
    Cache cache(charge_of(20, 2), Policy::kS3Fifo);
    cache.insert("/returning/one");
    for (int i = 0; i < 20; ++i) cache.insert("/scan/" + std::to_string(i));
    REQUIRE_FALSE(cache.has("/returning/one"));
    cache.insert("/returning/one");
    for (int i = 20; i < 35; ++i) cache.insert("/scan/" + std::to_string(i));
    CHECK(cache.has("/returning/one"));
}

TEST_CASE("a job cannot evict entries within another job's guarantee") {
    for (const Policy policy : {Policy::kLru, Policy::kS3Fifo}) {
        Cache cache(charge_of(40, 2), policy);
        cache.store.set_weight(jobs::kNoJob, 0);
        cache.store.set_weight(1, 1);
        cache.store.set_weight(2, 1);
        const auto insert = [&](const std::string& uri, jobs::JobId job) {
            cache.insert(cache.make_data(uri), job);
        };
        // What nobody else wants is borrowed,
        for (int i = 0; i < 100; ++i) insert("/a/" + std::to_string(i), 1);
        CHECK(cache.store.entries() == 40);
        // and given back to who comes for its own.
        for (int i = 0; i < 20; ++i) insert("/b/" + std::to_string(i), 2);
        for (int i = 100; i < 300; ++i) insert("/a/" + std::to_string(i), 1);
        for (int i = 0; i < 20; ++i) CHECK(cache.has("/b/" + std::to_string(i)));
        CHECK(cache.store.shares().used(1) == charge_of(20, 1));
        cache.store.remove_job(2);
        CHECK(cache.store.entries() == 20);
        CHECK_FALSE(cache.has("/b/0"));
    }
}

TEST_CASE("names that were dropped leave nothing behind") {
    Cache cache(charge_of(10, 12));
    for (int i = 0; i < 10'000; ++i) {
        cache.insert("/job/group/" + std::to_string(i) + "/leaf");
    }
    CHECK(cache.store.entries() == 10);
    CHECK(cache.find("/job/group/17", true).empty());
    CHECK_FALSE(cache.find("/job/group/9999", true).empty());
}

TEST_CASE("a cleared store is empty and accepts Data again") {
    for (const Policy policy : {Policy::kLru, Policy::kS3Fifo}) {
        Cache cache(1 << 20, policy);
        for (const std::string_view uri : {"/x/0", "/x/1", "/y"}) cache.insert(uri);
        CHECK(cache.store.clear() == 3);
        CHECK(cache.store.entries() == 0);
        CHECK(cache.store.size_bytes() == 0);
        CHECK(cache.store.evictions() == 0);
        CHECK_FALSE(cache.has("/x/0"));
        cache.insert("/x/0");
        CHECK(cache.has("/x/0"));
    }
}

TEST_CASE("names chosen for one bucket cost a bounded number of probes per look-up") {
    // As whoever had learnt the key could choose them: of 512 in a bucket, most are not kept.
    Cache cache(1 << 20);
    std::size_t sent = 0;
    std::string last;
    for (std::uint64_t i = 0; sent < 512; ++i) {
        const std::string uri = "/x" + std::to_string(i);
        if (wire::Name::from_uri(uri)->view().hash() % 1024 != 0) continue;
        last = uri;
        cache.insert(uri);
        ++sent;
    }
    CHECK(cache.store.longest_chain() <= 32);
    CHECK(cache.store.entries() == cache.store.longest_chain());
    CHECK(!cache.has(last));
    // Others are kept, and so are these once there is room.
    cache.insert("/others/a");
    CHECK(cache.has("/others/a"));
    cache.store.clear();
    CHECK(cache.store.size_bytes() == 0);
    cache.insert(last);
    CHECK(cache.has(last));
}

TEST_CASE("inserting a deep name whose prefix does not fit leaves no entry behind") {
    Cache cache(1 << 20);
    std::uint64_t i = 0;
    const auto next = [&] {
        for (;; ++i) {
            const std::string uri = "/x" + std::to_string(i);
            if (wire::Name::from_uri(uri)->view().hash() % 1024 == 0) break;
        }
        return "/x" + std::to_string(i++);
    };
    for (int kept = 0; kept < 32; ++kept) cache.insert(next());
    const std::size_t bytes = cache.store.size_bytes();
    cache.insert(next() + "/a/b/c");
    CHECK(cache.store.entries() == 32);
    CHECK(cache.store.size_bytes() == bytes);
}

TEST_CASE("thousands of names that differ in related bytes stay in short chains") {
    // Under a hash that takes some of these components for each other, whatever its key, all of
    // them were in one chain.
    const wire::Name one = wire::Name().append(test::from_hex("08060102"));
    const wire::Name other = wire::Name().append(test::from_hex("010208040806"));
    Cache cache(64 << 20);
    constexpr unsigned kComponents = 12;
    for (unsigned chosen = 0; chosen < 1U << kComponents; ++chosen) {
        wire::Name name;
        for (unsigned bit = 0; bit < kComponents; ++bit) {
            const wire::Name& part = (chosen >> bit & 1U) == 0 ? one : other;
            name.append(part.view().component(0).value);
        }
        cache.insert(name.view().to_uri());
    }
    CHECK(cache.store.entries() == 1U << kComponents);
    CHECK(cache.store.longest_chain() <= 16);
}

TEST_CASE("a full name is answered only by the packet with that digest") {
    Cache cache(1 << 20);
    const PacketRef packet = cache.make_data("/a");
    cache.insert(packet);
    security::Sha256 sha256;
    wire::Name full = wire::Name::from_uri("/a").value();
    full.append(wire::kImplicitSha256Digest, sha256.digest(packet.bytes()));
    CHECK(cache.find(full.view().to_uri()) == "/a");
    wire::Name wrong = wire::Name::from_uri("/a").value();
    wrong.append(wire::kImplicitSha256Digest, std::vector<std::uint8_t>(32, 1));
    CHECK(cache.find(wrong.view().to_uri()).empty());
    CHECK(cache.find(wrong.view().to_uri(), true).empty());
}

TEST_CASE("the digest of a replaced packet does not match its successor") {
    Cache cache(1 << 20);
    security::Sha256 sha256;
    const auto full_name_of = [&](const PacketRef& packet) {
        wire::Name full(wire::DataView::parse(packet.bytes())->name());
        return full.append(wire::kImplicitSha256Digest, sha256.digest(packet.bytes()))
            .view()
            .to_uri();
    };
    const PacketRef first = cache.make_data("/a/b", 100);
    const PacketRef second = cache.make_data("/a/b", 200);
    cache.insert(first);
    CHECK(cache.has(full_name_of(first)));
    CHECK_FALSE(cache.has(full_name_of(second)));
    cache.insert(second);
    CHECK_FALSE(cache.has(full_name_of(first)));
    CHECK(cache.has(full_name_of(second)));
}

TEST_CASE("a root manifest is never fresh, so that a requester can fetch another one") {
    Cache cache(1 << 20);
    for (const auto* uri : {"/a/32=manifest/seg=0", "/a/32=manifest/seg=1", "/a/seg=0"}) {
        cache.insert(cache.make_data(uri, 100, 1h));
        CHECK(cache.find(uri) == uri);
        CHECK(cache.find(uri, false, true).empty() == (uri == std::string("/a/32=manifest/seg=0")));
    }
}

TEST_CASE("Data that nobody verified are never fresh, whatever their packet claims") {
    Cache cache(1 << 20);
    const PacketRef packet = cache.make_data("/a/b", 100, 1h);
    const auto data = wire::DataView::parse(packet.bytes());
    cache.store.insert_unverified(*data, NamePrefixes(data->name()), packet, cache.now);
    CHECK(cache.find("/a/b", false, false, ContentStore::Answers::kAll) == "/a/b");
    CHECK(cache.find("/a/b", false, true, ContentStore::Answers::kAll).empty());
}

TEST_CASE("a packet that gets its MAC later is found by the digest of its present bytes") {
    Cache cache(1 << 20);
    security::Sha256 sha256;
    const PacketRef packet = cache.make_data("/a/b", 1700);
    const auto full_name = [&] {
        wire::Name full(wire::DataView::parse(packet.bytes())->name());
        full.append(wire::kImplicitSha256Digest, sha256.digest(packet.bytes()));
        return full.view().to_uri();
    };
    packet.set_mac_due();
    cache.insert(packet);
    const std::string without_mac = full_name();
    CHECK(cache.has(without_mac));
    const auto other = static_cast<std::uint8_t>(~packet.bytes().back());  // memory is recycled
    packet.put_mac(packet.size() - 1, std::array<std::uint8_t, 1>{other});
    CHECK_FALSE(cache.has(without_mac));
    CHECK(cache.has(full_name()));
}
