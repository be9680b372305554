#include <doctest/doctest.h>

#include <string>

#include "tests/native/support/elements.hpp"
#include "transport/wire/text.hpp"

using namespace innet::wire;
using innet::test::text;

TEST_CASE("a label is printable ASCII, and no longer than a node's name") {
    CHECK(is_label(text("3")));
    CHECK(is_label(text("rank 3")));
    CHECK(is_label(text(std::string(kMaxLabelSize, 'h').c_str())));
    CHECK_FALSE(is_label(text(std::string(kMaxLabelSize + 1, 'h').c_str())));
    CHECK_FALSE(is_label({}));
    for (int byte = 0; byte < 256; ++byte) {
        CAPTURE(byte);
        const auto one = static_cast<std::uint8_t>(byte);
        CHECK(is_label({&one, 1}) == (byte >= ' ' && byte <= '~'));
    }
}

TEST_CASE("a text is truncated between two characters") {
    const std::string whole = "a\u00e9\u20ac\U0001f600z";  // 1, 2, 3, 4 and 1 bytes
    const std::size_t ends[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
    for (std::size_t limit = 0; limit < std::size(ends); ++limit) {
        CAPTURE(limit);
        CHECK(cut_text(whole, limit) == whole.substr(0, ends[limit]));
    }
}

TEST_CASE("bytes that are not text are truncated too") {
    const std::string bytes(100, '\x80');
    CHECK(cut_text(bytes, 50).size() >= 47);
    CHECK(cut_text(bytes, 50).size() <= 50);
    CHECK(cut_text(bytes, 2).size() <= 2);
}
