// Only builds with INNET_DEBUG_LOG have a log.

#include "transport/debug_log.hpp"

#ifdef INNET_DEBUG_LOG

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace innet::debug_log {
namespace {

std::vector<std::string>& lines() {
    static std::vector<std::string> kept;
    return kept;
}

/// Collects the lines of some categories while it lives.
struct Collected {
    explicit Collected(std::string_view categories) {
        lines().clear();
        enable(categories);
        set_sink([](std::string_view line) { lines().emplace_back(line); });
    }
    Collected(const Collected&) = delete;
    Collected& operator=(const Collected&) = delete;
    ~Collected() {
        enable("");
        set_sink(nullptr);
    }
};

}  // namespace

TEST_CASE("a debug log has the lines of enabled categories") {
    const Collected collected("reduction,fetch");
    INNET_LOG(kFetch, "requests " << 7);
    INNET_LOG(kForwarding, "drops it");
    CHECK(lines() == std::vector<std::string>{"fetch: requests 7"});
}

TEST_CASE("a line of a debug log names the node that wrote it") {
    const Collected collected("all");
    const wire::Name node = *wire::Name::from_uri("/n/s0");
    {
        const NodeScope scope(node.view());
        INNET_LOG(kForwarding, "drops it");
    }
    INNET_LOG(kForwarding, "drops it");
    CHECK(lines() ==
          std::vector<std::string>{"forwarding /n/s0: drops it", "forwarding: drops it"});
}

TEST_CASE("a debug log refuses an unknown category") {
    CHECK_THROWS_AS(enable("forwading"), std::invalid_argument);
}

}  // namespace innet::debug_log

#endif
