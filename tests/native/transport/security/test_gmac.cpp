#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/native/support/elements.hpp"
#include "transport/security/gmac.hpp"

using namespace innet::security;
using innet::test::Bytes;
using innet::test::from_hex;

namespace {

Bytes tag_of(const Bytes& key, const Bytes& iv, std::span<const std::uint8_t> message,
             GmacLibrary library) {
    const GmacTag tag = Gmac(key, library).tag(GmacIv(iv), message);
    return {tag.begin(), tag.end()};
}

Bytes random_bytes(std::mt19937& random, std::size_t size) {
    Bytes bytes(size);
    std::ranges::generate(bytes, [&] { return static_cast<std::uint8_t>(random()); });
    return bytes;
}

bool has_two_libraries() {
    if (gmac_libraries().size() > 1) return true;
    MESSAGE("skipped: " << name_of(gmac_libraries().front()) << " alone suits this CPU");
    return false;
}

}  // namespace

TEST_CASE("GMAC gives the tags of NIST's vectors without plaintext") {
    for (const GmacLibrary library : gmac_libraries()) {
        CAPTURE(name_of(library));
        CHECK(tag_of(Bytes(16, 0), Bytes(12, 0), {}, library) ==
              from_hex("58e2fccefa7e3061367f1d57a4e7455a"));
        CHECK(tag_of(Bytes(32, 0), Bytes(12, 0), {}, library) ==
              from_hex("530f8afbc74536b9a963b4f1c4cb738b"));
        CHECK(tag_of(from_hex("77be63708971c4e240d1cb79e8d77feb"),
                     from_hex("e0e00f19fed7ba0136a797f3"),
                     from_hex("7a43ec1d9c0a5a78a0b16533a6213cab"),
                     library) == from_hex("209fcc8d3675ed938e9c7166709dd946"));
        CHECK(tag_of(from_hex("78dc4e0aaf52d935c3c01eea57428f00ca1fd475f5da86a49c8dd73d68c8e223"),
                     from_hex("d79cf22d504cc793c3fb6c8a"),
                     from_hex("b96baa8c1c75a671bfb2d08d06be5f36"),
                     library) == from_hex("3e5d486aa2e30b22e040b85723a06e76"));
    }
}

TEST_CASE("the first library's GMAC agrees with OpenSSL's at every length up to 2 KB") {
    if (!has_two_libraries()) return;
    std::mt19937 random(42);
    std::vector<std::size_t> sizes;
    for (std::size_t size = 0; size <= 2100; ++size) sizes.push_back(size);
    for (int i = 0; i < 300; ++i) sizes.push_back(random() % 65'536);
    for (const std::size_t key_size : {16U, 32U}) {
        Bytes key = random_bytes(random, key_size);
        Gmac fastest(key);
        Gmac openssl(key, GmacLibrary::kOpenssl);
        for (const std::size_t size : sizes) {
            CAPTURE(size);
            // In the middle of other bytes, which must not count, and at any alignment.
            const std::size_t before = random() % 64;
            const Bytes memory = random_bytes(random, before + size + 64);
            const auto message = std::span(memory).subspan(before, size);
            const Bytes iv = random_bytes(random, kGmacIvSize);
            REQUIRE(fastest.tag(GmacIv(iv), message) == openssl.tag(GmacIv(iv), message));
        }
    }
}

TEST_CASE("the first library's GMAC agrees with OpenSSL's under many keys") {
    if (!has_two_libraries()) return;
    std::mt19937 random(43);
    for (int i = 0; i < 200; ++i) {
        const Bytes key = random_bytes(random, i % 2 == 0 ? 16 : 32);
        const Bytes iv = random_bytes(random, kGmacIvSize);
        const Bytes message = random_bytes(random, 1040);
        REQUIRE(tag_of(key, iv, message, gmac_libraries().front()) ==
                tag_of(key, iv, message, GmacLibrary::kOpenssl));
    }
}

TEST_CASE("the GMAC of a message in parts is that of the whole") {
    std::mt19937 random(44);
    for (const GmacLibrary library : gmac_libraries()) {
        CAPTURE(name_of(library));
        for (int i = 0; i < 300; ++i) {
            const Bytes key = random_bytes(random, i % 2 == 0 ? 16 : 32);
            const Bytes iv = random_bytes(random, kGmacIvSize);
            const Bytes message = random_bytes(random, random() % 3000);
            const std::size_t first = random() % (message.size() + 1);
            const std::size_t second = first + random() % (message.size() - first + 1);
            const innet::wire::ByteView bytes(message);
            const std::array<innet::wire::ByteView, 3> parts{
                bytes.first(first), bytes.subspan(first, second - first), bytes.subspan(second)};
            Gmac gmac(key, library);
            const GmacTag whole = gmac.tag(GmacIv(iv), bytes);
            REQUIRE(gmac.tag(GmacIv(iv), parts) == whole);
        }
    }
}
