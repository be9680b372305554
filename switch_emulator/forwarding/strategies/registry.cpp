#include "switch_emulator/forwarding/strategies/registry.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "switch_emulator/forwarding/strategies/adaptive.hpp"
#include "switch_emulator/forwarding/strategies/best_route.hpp"
#include "switch_emulator/forwarding/strategies/first_answer.hpp"

namespace innet::forwarding::strategies {

namespace {

constexpr std::string_view kPrefix = "/localhost/nfd/strategy";
constexpr std::size_t kPrefixComponents = 3;
constexpr std::size_t kClones = 2;
/// NFD 24.07's numbers, so that its tools find what they know.
constexpr std::uint64_t kVersion = 5;

std::string_view text_of(wire::NameView name, std::size_t index) {
    const wire::ByteView value = name.component(index).value;
    return {reinterpret_cast<const char*>(value.data()), value.size()};
}

bool is_generic(wire::NameView name, std::size_t index) {
    return name.component(index).type == wire::kGenericComponent;
}

wire::Name full_name(std::string_view strategy) {
    wire::Name name = wire::Name::from_uri(kPrefix).value_or(wire::Name());
    name.append(strategy);
    name.append_number(wire::kVersionComponent, kVersion);
    return name;
}

/// Takes `<key>~<number>`; false when it is nothing of the kind.
bool read_parameter(std::string_view text, AdaptiveOptions& options) {
    const std::size_t middle = text.find('~');
    if (middle == std::string_view::npos) return false;
    const std::string_view key = text.substr(0, middle);
    const std::string_view value = text.substr(middle + 1);
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number == 0) return false;
    if (key == "probing-interval") {
        options.probing_interval = std::chrono::milliseconds(number);
    } else if (key == "max-timeouts") {
        options.max_timeouts = number;
    } else {
        return false;
    }
    return true;
}

using Parameters = std::vector<std::string_view>;

std::unique_ptr<Strategy> make(std::string_view strategy, const Parameters& parameters,
                               std::uint64_t seed, StrategyCounters& counters) {
    if (strategy == "asf") {
        AdaptiveOptions options;
        const bool all_read = std::ranges::all_of(
            parameters, [&](std::string_view text) { return read_parameter(text, options); });
        return all_read ? std::make_unique<Adaptive>(options, seed, counters.probes) : nullptr;
    }
    if (!parameters.empty()) return nullptr;
    if (strategy == "best-route") return std::make_unique<BestRoute>();
    if (strategy == "multicast") {
        return std::make_unique<FirstAnswer>(FirstAnswer::kEveryone, counters.copies);
    }
    if (strategy == "clone") return std::make_unique<FirstAnswer>(kClones, counters.copies);
    return nullptr;
}

}  // namespace

std::optional<NamedStrategy> make_strategy(wire::NameView name, std::uint64_t seed,
                                           StrategyCounters& counters) {
    const std::size_t size = name.size();
    const wire::Name prefix = wire::Name::from_uri(kPrefix).value_or(wire::Name());
    if (size <= kPrefixComponents || !(name.prefix(kPrefixComponents) == prefix.view()) ||
        !is_generic(name, kPrefixComponents)) {
        return std::nullopt;
    }
    const std::string_view strategy = text_of(name, kPrefixComponents);
    NamedStrategy named{full_name(strategy), nullptr};
    std::size_t next = kPrefixComponents + 1;
    if (next < size && name.component(next).type == wire::kVersionComponent) {
        if (!(name.prefix(next + 1) == named.name.view())) return std::nullopt;
        ++next;
    }
    Parameters parameters;
    for (; next < size; ++next) {
        if (!is_generic(name, next)) return std::nullopt;
        parameters.push_back(text_of(name, next));
        named.name.append(parameters.back());
    }
    named.strategy = make(strategy, parameters, seed, counters);
    if (!named.strategy) return std::nullopt;
    return named;
}

wire::Name default_strategy_name() { return full_name("best-route"); }

}  // namespace innet::forwarding::strategies
