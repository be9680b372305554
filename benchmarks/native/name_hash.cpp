// Processor time of hashing names as the tables do: a whole name at once, and a packet's name with
// the prefixes that its look-ups probe.
//
//   name_hash [rounds]

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <vector>

#include "switch_emulator/tables/name_prefixes.hpp"

namespace {

using namespace innet;

constexpr std::uint64_t kNames = 512;

double processor_ns() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

/// Names that differ in their segment, as consecutive packets do.
std::vector<wire::Name> names_below(std::string_view prefix) {
    std::vector<wire::Name> names;
    for (std::uint64_t segment = 0; segment < kNames; ++segment) {
        wire::Name& name = names.emplace_back(wire::Name::from_uri(prefix).value());
        name.append_number(wire::kSegmentComponent, 1'000'000 + segment);
    }
    return names;
}

template <typename Hash>
double ns_per_name(const std::vector<wire::Name>& names, std::uint64_t rounds, Hash hash) {
    std::uint64_t sum = 0;
    const double start = processor_ns();
    for (std::uint64_t round = 0; round < rounds; ++round) {
        for (const wire::Name& name : names) sum += hash(name.view());
    }
    const double end = processor_ns();
    if (sum == 0) std::abort();  // so that nothing is left out
    return (end - start) / static_cast<double>(rounds * names.size());
}

void report(std::string_view prefix, std::uint64_t rounds) {
    const std::vector<wire::Name> names = names_below(prefix);
    const double whole =
        ns_per_name(names, rounds, [](wire::NameView name) { return name.hash(); });
    const double packet = ns_per_name(names, rounds, [](wire::NameView name) {
        const tables::NamePrefixes prefixes(name);
        return prefixes.hash() + prefixes.hash(1) + prefixes.hash(2);
    });
    const double all = ns_per_name(names, rounds, [](wire::NameView name) {
        const tables::NamePrefixes prefixes(name);
        std::uint64_t sum = 0;
        for (std::size_t depth = 0; depth <= prefixes.depth(); ++depth) sum += prefixes.hash(depth);
        return sum;
    });
    std::printf(
        "%3zu bytes, %2zu components %7.1f ns whole %7.1f ns and two prefixes %7.1f ns all\n",
        names[0].view().value().size(), names[0].view().size(), whole, packet, all);
}

}  // namespace

int main(int argc, char** argv) {
    const std::uint64_t rounds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20'000;
    report("/n/h0", rounds);
    report("/train1/g0/0-7/sum.f32/seq=41", rounds);
    report(
        "/kv/tenant/0123456789abcdef/fp16.b16/0-31/"
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        rounds);
}
