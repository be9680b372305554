#include <doctest/doctest.h>

#include "switch_emulator/tables/fib.hpp"

using namespace innet;
using tables::Fib;
using tables::NamePrefixes;

namespace {

wire::Name name(std::string_view uri) { return wire::Name::from_uri(uri).value(); }

/// The best face for `uri`; kNoFace without a route.
FaceId best(const Fib& fib, std::string_view uri) {
    const wire::Name looked_up = name(uri);
    const auto hops = fib.longest_prefix_match(NamePrefixes(looked_up.view()));
    return hops.empty() ? kNoFace : hops[0].face;
}

}  // namespace

TEST_CASE("the longest prefix is matched, component by component") {
    Fib fib;
    fib.add(name("/a"), 1, 0);
    fib.add(name("/a/b"), 2, 0);
    CHECK(best(fib, "/a/b/c") == 2);
    CHECK(best(fib, "/a/b") == 2);
    CHECK(best(fib, "/a/bc") == 1);
    CHECK(best(fib, "/ab") == kNoFace);
}

TEST_CASE("the empty prefix is the default route") {
    Fib fib;
    fib.add(wire::Name(), 9, 0);
    CHECK(best(fib, "/anything/at/all") == 9);
}

TEST_CASE("next hops come cheapest first, and a new cost replaces the old one") {
    Fib fib;
    fib.add(name("/a"), 1, 10);
    fib.add(name("/a"), 2, 5);
    CHECK(best(fib, "/a") == 2);
    fib.add(name("/a"), 1, 1);
    CHECK(best(fib, "/a") == 1);
}

TEST_CASE("removing a prefix's last next hop exposes the shorter prefix") {
    Fib fib;
    fib.add(name("/a"), 1, 0);
    fib.add(name("/a/b"), 2, 0);
    fib.add(name("/a/b"), 3, 1);
    fib.remove(name("/a/b"), 2);
    CHECK(best(fib, "/a/b") == 3);
    fib.remove_face(3);
    CHECK(best(fib, "/a/b") == 1);
    fib.remove_face(1);
    CHECK(best(fib, "/a/b") == kNoFace);
}

TEST_CASE("a name longer than any prefix that is looked up still finds its route") {
    Fib fib;
    fib.add(name("/a"), 1, 0);
    std::string uri = "/a";
    for (int i = 0; i < 100; ++i) uri += "/x";
    CHECK(best(fib, uri) == 1);
}
