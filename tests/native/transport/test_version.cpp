#include <doctest/doctest.h>

#include <algorithm>
#include <string_view>

#include "transport/version.hpp"

TEST_CASE("the version is three numbers with dots between them") {
    const std::string_view version = innet::version();
    CHECK(std::ranges::count(version, '.') == 2);
    CHECK(version.find_first_not_of("0123456789.") == std::string_view::npos);
}
