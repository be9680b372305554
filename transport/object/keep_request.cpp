#include "transport/object/keep_request.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace innet {

namespace {

/// Components below the requests' prefix: of the first block, and of each that follows it.
constexpr std::size_t kFirst = 9;
constexpr std::size_t kMore = 3;
constexpr std::size_t kMost = kFirst + (KeepRequest::kMaxBlocks - 1) * kMore;
/// Of the requests' prefix, behind that of the blocks.
constexpr std::size_t kBelowBlocks = 2;

constexpr std::size_t kMaxDigits = 9;
constexpr std::size_t kHashCharacters = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hexadecimal(char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }
bool is_word(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_in_layout(char c) { return is_word(c) || c == '-'; }
bool is_in_node(char c) { return is_in_layout(c) || c == '.'; }

bool consists_of(std::string_view text, bool (*is_one)(char), std::size_t least, std::size_t most) {
    return text.size() >= least && text.size() <= most && std::ranges::all_of(text, is_one);
}

bool is_node(std::string_view text) {
    return consists_of(text, is_in_node, 1, 32) && is_word(text.front());
}

std::optional<std::uint64_t> number_of(std::string_view text) {
    const bool is_shortest = text.size() == 1 || !text.starts_with('0');
    if (!consists_of(text, is_digit, 1, kMaxDigits) || !is_shortest) return std::nullopt;
    std::uint64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
}

/// The first and the last of a block's layers: `0-31`.
bool are_layers(std::string_view text) {
    const std::size_t between = text.find('-');
    if (between == std::string_view::npos) return false;
    const auto first = number_of(text.substr(0, between));
    const auto last = number_of(text.substr(between + 1));
    return first && last && *first <= *last;
}

using Parts = std::array<std::string_view, kMost>;

/// Reads the components of `name` from `first` on and returns their number; nothing when one is not
/// generic, or there are too many.
std::optional<std::size_t> read_parts(wire::NameView name, std::size_t first, Parts& parts) {
    wire::Reader reader(name.value());
    std::size_t count = 0;
    for (std::size_t index = 0; !reader.empty(); ++index) {
        const auto component = reader.next();
        if (!component) return std::nullopt;
        if (index < first) continue;
        if (component->type != wire::kGenericComponent || count == kMost) return std::nullopt;
        parts[count++] = {reinterpret_cast<const char*>(component->value.data()),
                          component->value.size()};
    }
    return count;
}

std::array<std::string_view, kFirst> first_of(const Parts& parts) {
    std::array<std::string_view, kFirst> first;
    std::ranges::copy_n(parts.begin(), kFirst, first.begin());
    return first;
}

/// Name of one block: `family` and the block's own components.
std::optional<KeepRequest::Block> block_of(const wire::Name& family, std::string_view layers,
                                           std::string_view hash, std::string_view depth) {
    const auto number = number_of(depth);
    const bool is_hash = consists_of(hash, is_hexadecimal, kHashCharacters, kHashCharacters);
    if (!number || !is_hash || !are_layers(layers)) return std::nullopt;
    wire::Name name = family;
    name.append(layers).append(hash);
    return KeepRequest::Block{std::move(name), *number};
}

}  // namespace

std::optional<KeepRequest> KeepRequest::parse(wire::NameView name, const wire::Name& requests) {
    const std::size_t above = requests.view().size();
    if (above < kBelowBlocks || !requests.view().is_prefix_of(name)) return std::nullopt;
    Parts parts;
    const auto count = read_parts(name, above, parts);
    if (!count || *count < kFirst || (*count - kFirst) % kMore != 0) return std::nullopt;
    const auto [requester, nonce, verb, digest, layout, layers, hash, depth, source] =
        first_of(parts);
    if (verb != "keep" || !is_node(requester) || !is_node(source) ||
        !consists_of(nonce, is_hexadecimal, 1, 128) ||
        !consists_of(digest, is_hexadecimal, 2, 128) || !consists_of(layout, is_in_layout, 1, 64)) {
        return std::nullopt;
    }
    wire::Name family(requests.view().prefix(above - kBelowBlocks));
    family.append(digest).append(layout);
    KeepRequest request{requester, source, {}};
    auto block = block_of(family, layers, hash, depth);
    for (std::size_t next = kFirst;; next += kMore) {
        if (!block) return std::nullopt;
        request.blocks.push_back(std::move(*block));
        if (next == *count) return request;
        block = block_of(family, parts[next], parts[next + 1], parts[next + 2]);
    }
}

}  // namespace innet
