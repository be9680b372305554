#pragma once
// How a fuzz target says that something is wrong.

#include <cstdio>
#include <cstdlib>

namespace innet::fuzz {

/// Ends the process, which libFuzzer takes for a finding, unless `holds`.
inline void require(bool holds, const char* property) {
    if (holds) return;
    std::fprintf(stderr, "this does not hold: %s\n", property);
    std::abort();
}

}  // namespace innet::fuzz
