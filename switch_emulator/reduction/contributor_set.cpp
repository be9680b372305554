#include "switch_emulator/reduction/contributor_set.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace innet::reduction {

namespace {

constexpr std::size_t kBitsPerDigit = 4;
constexpr std::string_view kDigits = "0123456789abcdef";

struct Ranks {
    std::size_t first = 0;
    std::size_t last = 0;
};

std::optional<Ranks> ranks_of(wire::ByteView interval_component) {
    wire::Reader reader(interval_component);
    const auto component = reader.next();
    if (!component) return std::nullopt;
    const char* const begin = reinterpret_cast<const char*>(component->value.data());
    const char* const end = begin + component->value.size();
    Ranks ranks;
    const auto first = std::from_chars(begin, end, ranks.first);
    if (first.ec != std::errc{}) return std::nullopt;
    if (first.ptr == end) return Ranks{ranks.first, ranks.first};
    if (*first.ptr != '-') return std::nullopt;
    const auto last = std::from_chars(first.ptr + 1, end, ranks.last);
    if (last.ec != std::errc{} || last.ptr != end) return std::nullopt;
    return ranks;
}

}  // namespace

std::optional<ContributorSet> ContributorSet::parse(std::string_view digits) {
    const bool is_canonical = !digits.empty() && digits.front() != '0' &&
                              digits.find_first_not_of(kDigits) == std::string_view::npos;
    return is_canonical ? std::optional(ContributorSet(digits)) : std::nullopt;
}

bool ContributorSet::intersects(wire::ByteView interval_component) const {
    if (digits_.empty()) return true;
    const auto ranks = ranks_of(interval_component);
    if (!ranks) return false;
    const std::size_t end = digits_.size() * kBitsPerDigit - 1;
    if (ranks->first <= ranks->last) return has_any(ranks->first, ranks->last);
    // Across the end of the circle, whose size no set needs to know: there are no bits beyond it.
    return has_any(ranks->first, end) || has_any(0, ranks->last);
}

bool ContributorSet::has_any(std::size_t first, std::size_t last) const {
    const std::size_t end = digits_.size();
    for (std::size_t place = first / kBitsPerDigit; place < end && place <= last / kBitsPerDigit;
         ++place) {
        const std::size_t bits = kDigits.find(digits_[end - 1 - place]);
        const std::size_t from = std::max(first, place * kBitsPerDigit) % kBitsPerDigit;
        const std::size_t to = std::min(last - place * kBitsPerDigit, kBitsPerDigit - 1);
        for (std::size_t bit = from; bit <= to; ++bit) {
            if ((bits >> bit & 1) != 0) return true;
        }
    }
    return false;
}

}  // namespace innet::reduction
