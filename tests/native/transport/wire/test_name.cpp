#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <string>

#include "tests/native/support/elements.hpp"
#include "transport/wire/name.hpp"

using namespace innet::wire;
using innet::test::Bytes;
using innet::test::from_hex;
using innet::test::join;
using innet::test::text;
using innet::test::tlv;

namespace {

Name name_of(std::string_view uri) {
    auto name = Name::from_uri(uri);
    REQUIRE(name.has_value());
    return *name;
}

/// Another key while it lives.
struct OtherKey {
    explicit OtherKey(const NameHashKey& key) { set_name_hash_key(key); }
    ~OtherKey() { set_name_hash_key({}); }
};

NameHashKey key_of(std::uint32_t seed) {
    std::mt19937_64 random(seed);
    return {random(), random(), random()};
}

/// Who knows the key finds bytes 8 to 15 of a component that undo what the first eight did: all
/// names chosen so, and ended alike, have one hash.
Name colliding_name(const NameHashKey& key, std::uint32_t number) {
    __extension__ using Wide = unsigned __int128;
    Bytes value = text("0123456789abcdefEND");
    std::memcpy(value.data(), &number, sizeof number);
    std::uint64_t first = 0;
    const Name unfinished = Name().append(value);
    std::memcpy(&first, unfinished.view().value().data(), sizeof first);
    const Wide product = static_cast<Wide>(key.start ^ first) * key.first_factor;
    const auto undo =
        static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    std::memcpy(value.data() + 6, &undo, sizeof undo);  // type and length come before the value
    return Name().append(value);
}

bool same(ByteView a, ByteView b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

}  // namespace

TEST_CASE("a name's bytes are those that python-ndn encodes") {
    CHECK(same(name_of("/local/ndn/prefix").view().value(),
               from_hex("08056c6f63616c08036e646e0806707265666978")));
    CHECK(same(name_of("/video/v=3/seg=300").view().value(),
               from_hex("0805766964656f3601033202012c")));
}

TEST_CASE("URIs survive a round trip") {
    for (const char* uri : {
             "/",
             "/a",
             "/train1/g0/0-7/sum.f32/seq=41/seg=9",
             "/...",      // an empty component
             "/....",     // one period
             "/...../a",  // two periods
             "/a.b/.../c",
             "/%00%FF%2F%25",
             "/32=metadata/v=0/t=18446744073709551615/off=65536",
             "/65535=x",
             "/sha256digest=893259d98aca58c451453f29ec7dc38688e690dd0b59ef4f3b9d33738bff0b8d",
             "/x/params-sha256=893259d98aca58c451453f29ec7dc38688e690dd0b59ef4f3b9d33738bff0b8d",
             "/50=%00%00%01",  // not a number, so no convention applies
             "/50=%00%01",     // a number in a longer form: the bytes must survive
         }) {
        CAPTURE(uri);
        const Name name = name_of(uri);
        CHECK(name.view().to_uri() == uri);
        CHECK(NameView::parse(name.view().value()).has_value());
    }
}

TEST_CASE("URIs may carry their scheme and reserved characters") {
    CHECK(name_of("ndn:/a/b") == name_of("/a/b"));
    CHECK(name_of("/a%62c") == name_of("/abc"));
    CHECK(name_of("/a+b:c").view().to_uri() == "/a%2Bb%3Ac");
}

TEST_CASE("malformed URIs give no name") {
    for (const char* uri : {
             "",
             "a",
             "a/b",
             "//",
             "/a//b",
             "/a/",
             "/.",
             "/..",
             "/a/../b",
             "/%",
             "/%1",
             "/%zz",
             "/seq=",
             "/seq=x",
             "/seq=-1",
             "/seq=01",
             "/seq=18446744073709551616",
             "/foo=bar",
             "/0=x",
             "/65536=x",
             "/8=",
             "/sha256digest=00",
             "/sha256digest=zz",
             "/1=abc",
             "/params-sha256=893259d98aca58c451453f29ec7dc38688e690dd0b59ef4f3b9d33738bff0b8",
         }) {
        CAPTURE(uri);
        CHECK_FALSE(Name::from_uri(uri).has_value());
    }
}

TEST_CASE("component types are 1 to 65535, digests have 32 bytes and parameters one digest") {
    const Bytes digest(32, 0xab);
    CHECK(NameView::parse({}).has_value());
    CHECK(NameView::parse(tlv(65535, {text("x")})).has_value());
    CHECK_FALSE(NameView::parse(tlv(65536, {text("x")})).has_value());
    CHECK(NameView::parse(tlv(kImplicitSha256Digest, {digest})).has_value());
    CHECK_FALSE(NameView::parse(tlv(kImplicitSha256Digest, {digest, digest})).has_value());
    CHECK_FALSE(NameView::parse(tlv(kParametersSha256Digest, {text("short")})).has_value());
    const Bytes parameters = tlv(kParametersSha256Digest, {digest});
    CHECK(check_name(parameters)->has_parameters_digest);
    CHECK_FALSE(NameView::parse(join({parameters, parameters})).has_value());
    CHECK_FALSE(NameView::parse(from_hex("080261")).has_value());
    CHECK_FALSE(NameView::parse(from_hex("08016100")).has_value());
}

TEST_CASE("components, prefixes and parents") {
    const Name name = name_of("/a/bc/seq=41/seg=300");
    const NameView view = name.view();
    CHECK(view.size() == 4);
    CHECK(view.component(0).type == kGenericComponent);
    CHECK(same(view.component(1).value, text("bc")));
    CHECK(view.component(3).type == kSegmentComponent);
    CHECK(read_nonnegative(view.component(3).value) == 300);
    CHECK(view.prefix(0).empty());
    CHECK(view.prefix(2) == name_of("/a/bc").view());
    CHECK(view.prefix(4) == view);
    CHECK(view.prefix(9) == view);
    CHECK(view.parent() == name_of("/a/bc/seq=41").view());
    CHECK(NameView().parent().empty());
    CHECK(NameView().size() == 0);
}

TEST_CASE("a prefix ends where a component ends") {
    const Name name = name_of("/ab/c");
    CHECK(name_of("/").view().is_prefix_of(name.view()));
    CHECK(name_of("/ab").view().is_prefix_of(name.view()));
    CHECK(name.view().is_prefix_of(name.view()));
    CHECK_FALSE(name_of("/a").view().is_prefix_of(name.view()));
    CHECK_FALSE(name_of("/ab/c/d").view().is_prefix_of(name.view()));
    CHECK_FALSE(name_of("/ab/seg=99").view().is_prefix_of(name.view()));
}

TEST_CASE("the hash of a name extends that of its prefix") {
    const Name name = name_of("/train1/g0/0-3/a-component-longer-than-eight/seq=41/seg=9");
    NameHash hash = empty_name_hash();
    CHECK(NameView().hash() == hash);
    for (std::size_t i = 0; i < name.view().size(); ++i) {
        hash = extend_hash(hash, name.view().component(i).whole);
        CHECK(name.view().prefix(i + 1).hash() == hash);
    }
}

TEST_CASE("names that differ in one byte, type, order or cut have different hashes") {
    const std::string longest = "abcdefghijklmnopqrstuvwxyz";
    std::set<NameHash> hashes;
    std::size_t names = 0;
    const auto add = [&](const Name& name) {
        hashes.insert(name.view().hash());
        ++names;
    };
    for (std::size_t size = 1; size <= longest.size(); ++size) {
        const std::string original = longest.substr(0, size);
        add(Name().append(original));
        for (std::size_t at = 0; at < size; ++at) {
            std::string changed = original;
            changed[at] ^= 1;
            add(Name().append(changed));
        }
        for (std::size_t cut = 1; cut < size; ++cut) {
            add(Name().append(original.substr(0, cut)).append(original.substr(cut)));
        }
        add(Name().append(kSegmentComponent, text(original)));
    }
    add(name_of("/x/y"));
    add(name_of("/y/x"));
    CHECK(hashes.size() == names);
}

TEST_CASE("names chosen to collide under one key do not under another") {
    const auto different_hashes = [] {
        std::set<NameHash> hashes;
        for (std::uint32_t i = 0; i < 1000; ++i) {
            hashes.insert(colliding_name(NameHashKey{}, i).view().hash());
        }
        return hashes.size();
    };
    REQUIRE(different_hashes() == 1);
    const OtherKey other(key_of(1));
    CHECK(different_hashes() == 1000);
}

TEST_CASE("hashes of consecutive segments fill a table evenly") {
    constexpr std::size_t kBuckets = 1024;
    constexpr std::size_t kNames = 64 * kBuckets;
    for (const unsigned variant : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U}) {
        const unsigned shift = variant % 2 == 0 ? 0 : 54;  // lowest and highest ten bits
        CAPTURE(variant);
        const OtherKey other(variant < 2 ? NameHashKey{} : key_of(variant));
        std::vector<std::size_t> buckets(kBuckets);
        const NameHash prefix = name_of("/train1/g0/0-7/sum.f32/seq=41").view().hash();
        for (std::size_t segment = 0; segment < kNames; ++segment) {
            const Name last = Name().append_number(kSegmentComponent, segment);
            ++buckets[(extend_hash(prefix, last.view().value()) >> shift) % kBuckets];
        }
        double chi_square = 0;
        for (const std::size_t count : buckets) {
            const double off = static_cast<double>(count) - 64.0;
            chi_square += off * off / 64.0;
        }
        // 1023 degrees of freedom: mean 1023, standard deviation 45. Five deviations above.
        CHECK(chi_square < 1023 + 5 * 45);
    }
}

TEST_CASE("names order as the specification's canonical order does") {
    CHECK(name_of("/a") < name_of("/b"));
    CHECK(name_of("/b") < name_of("/aa"));  // shorter first
    CHECK(name_of("/a") < name_of("/a/a"));
    CHECK(name_of("/zz") < name_of("/32=a"));  // smaller type first
}
