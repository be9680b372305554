#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/native/support/elements.hpp"
#include "transport/wire/name.hpp"
#include "transport/wire/name_uri.hpp"

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
    return {random(), random()};
}

/// Names of `components` components, each of which is one of the two: all combinations.
std::vector<Name> combinations(const Name& one, const Name& other, unsigned components) {
    std::vector<Name> names;
    for (unsigned chosen = 0; chosen < 1U << components; ++chosen) {
        Name& name = names.emplace_back();
        for (unsigned i = 0; i < components; ++i) {
            const Element component = ((chosen >> i & 1U) == 0 ? one : other).view().component(0);
            name.append(component.type, component.value);
        }
    }
    return names;
}

std::size_t different_hashes(const std::vector<Name>& names) {
    std::set<NameHash> hashes;
    for (const Name& name : names) hashes.insert(name.view().hash());
    return hashes.size();
}

bool same(ByteView a, ByteView b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

}  // namespace

TEST_CASE("a name's bytes equal python-ndn's encoding") {
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

TEST_CASE("a slash at the end of a URI adds no component") {
    CHECK(name_of("/a/") == name_of("/a"));
    CHECK(name_of("ndn:/a/b/") == name_of("/a/b"));
    CHECK(name_of("/.../") == name_of("/..."));
}

TEST_CASE("a malformed URI is explained") {
    CHECK(uri_error("/a/b=1") != nullptr);
    CHECK(uri_error("/a/8=1") == nullptr);
    const auto why = [](const char* uri) { return std::string(uri_error(uri)); };
    CHECK(why("a").starts_with("a name begins with a slash"));
    CHECK(why("//").starts_with("a component is empty"));
    CHECK(why("/8=").starts_with("a component is empty"));
    CHECK(why("/../b").starts_with("'.' and '..'"));
    CHECK(why("/%0").starts_with("a percent sign"));
    CHECK(why("/v=x").starts_with("expected a decimal number"));
    CHECK(why("/foo=bar").starts_with("expected seg, off"));
    CHECK(why("/sha256digest=zz").starts_with("expected 64 hexadecimal digits"));
    CHECK(why("/1=abc").starts_with("expected 64 hexadecimal digits"));
    const std::string digest = "/params-sha256=" + std::string(64, 'a');
    CHECK(why((digest + digest).c_str()).starts_with("it has two params-sha256"));
}

TEST_CASE("malformed URIs give no name") {
    for (const char* uri : {
             "",
             "a",
             "a/b",
             "//",
             "/a//b",
             "/a//",
             "/seq=1//",
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

TEST_CASE("the hash of a name continues from that of any prefix, wherever it is cut") {
    const Name name = name_of("/train1/g0/0-3/a-component-longer-than-eight/seq=41/seg=9");
    const ByteView bytes = name.view().value();
    for (std::size_t first = 0; first <= bytes.size(); ++first) {
        NameHasher hasher;
        hasher.add(bytes.first(first));
        CHECK(hasher.hash() == hash_name(bytes.first(first)));
        for (std::size_t second = first; second <= bytes.size(); ++second) {
            NameHasher longer = hasher;
            longer.add(bytes.subspan(first, second - first));
            longer.add(bytes.subspan(second));
            REQUIRE(longer.hash() == name.view().hash());
        }
    }
}

TEST_CASE("the hash is SipHash-1-3") {
    // Of the bytes 0, 1, 2, … under the key of the bytes 0 to 15, by an implementation in Python
    // whose hashes under another key are those of CPython's siphash13.
    const OtherKey key({0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL});
    Bytes message(64);
    std::iota(message.begin(), message.end(), std::uint8_t{0});
    CHECK(hash_name(ByteView(message).first(0)) == 0xabac0158050fc4dcULL);
    CHECK(hash_name(ByteView(message).first(1)) == 0xc9f49bf37d57ca93ULL);
    CHECK(hash_name(ByteView(message).first(7)) == 0xd3927d989bb11140ULL);
    CHECK(hash_name(ByteView(message).first(8)) == 0x369095118d299a8eULL);
    CHECK(hash_name(ByteView(message).first(15)) == 0xd320d86d2a519956ULL);
    CHECK(hash_name(ByteView(message).first(63)) == 0x9d199062b7bbb3a8ULL);
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

TEST_CASE("components of related bytes have different hashes") {
    // A hash that reads the ends of short components with overlapping loads takes the first pair
    // for one, whatever the key, and so all 1024 combinations.
    const std::vector<std::pair<Name, Name>> pairs = {
        {Name().append(from_hex("08060102")), Name().append(from_hex("010208040806"))},
        {Name().append(from_hex("01")), Name().append(from_hex("0100"))},
        {Name().append(from_hex("00")), Name().append(from_hex("0000000000000000"))},
        {Name().append(from_hex("0001")), Name().append(from_hex("0100"))},
        {Name().append(from_hex("aaaaaaaa")), Name().append(from_hex("aaaaaaaaaa"))},
        {Name().append(from_hex("0123456789abcdef")), Name().append(from_hex("89abcdef01234567"))},
    };
    for (const std::uint32_t seed : {1U, 2U, 3U}) {
        CAPTURE(seed);
        const OtherKey key(key_of(seed));
        for (const auto& [one, other] : pairs) {
            CAPTURE(one.view().to_uri());
            CHECK(different_hashes(combinations(one, other, 10)) == 1024);
        }
    }
}

TEST_CASE("names of all lengths, padded, repeated, and cut anywhere have different hashes") {
    for (const std::uint32_t seed : {1U, 2U, 3U}) {
        CAPTURE(seed);
        const OtherKey key(key_of(seed));
        std::vector<Name> names;
        for (std::size_t size = 1; size <= 40; ++size) {
            for (const std::uint8_t byte : from_hex("000108ff")) {
                const Bytes value(size, byte);
                names.push_back(Name().append(value));
                for (std::size_t cut = 1; cut < size; ++cut) {
                    names.push_back(Name()
                                        .append(ByteView(value).first(cut))
                                        .append(ByteView(value).subspan(cut)));
                }
            }
        }
        CHECK(different_hashes(names) == names.size());
    }
}

TEST_CASE("names chosen for one bucket under one key scatter under another") {
    constexpr NameHash kBuckets = 1024;
    std::vector<Name> chosen;
    for (std::uint64_t i = 0; chosen.size() < 64; ++i) {
        Name name = Name().append_number(kSegmentComponent, i);
        if (name.view().hash() % kBuckets == 0) chosen.push_back(std::move(name));
    }
    const OtherKey other(key_of(1));
    std::set<NameHash> buckets;
    for (const Name& name : chosen) buckets.insert(name.view().hash() % kBuckets);
    CHECK(buckets.size() > 48);
}

TEST_CASE("hashes of consecutive segments fill a table evenly") {
    constexpr std::size_t kBuckets = 1024;
    constexpr std::size_t kNames = 64 * kBuckets;
    for (const unsigned variant : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U}) {
        const unsigned shift = variant % 2 == 0 ? 0 : 54;  // lowest and highest ten bits
        CAPTURE(variant);
        const OtherKey other(variant < 2 ? NameHashKey{} : key_of(variant));
        std::vector<std::size_t> buckets(kBuckets);
        NameHasher prefix;
        prefix.add(name_of("/train1/g0/0-7/sum.f32/seq=41").view().value());
        for (std::size_t segment = 0; segment < kNames; ++segment) {
            const Name last = Name().append_number(kSegmentComponent, segment);
            NameHasher hasher = prefix;
            hasher.add(last.view().value());
            ++buckets[(hasher.hash() >> shift) % kBuckets];
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
