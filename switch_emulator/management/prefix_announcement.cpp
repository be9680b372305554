#include "switch_emulator/management/prefix_announcement.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "switch_emulator/management/rib.hpp"
#include "transport/wire/data.hpp"
#include "transport/wire/text.hpp"

namespace innet::management {

namespace {

constexpr auto kAnnouncementType = static_cast<wire::ContentType>(5);
constexpr std::uint32_t kNotBefore = 0xfe;
constexpr std::uint32_t kNotAfter = 0xff;
// NFD's values for announced routes: configured routes take precedence.
constexpr std::uint64_t kAnnouncedOrigin = 129;
constexpr std::uint64_t kAnnouncedCost = 2048;

using wire::text_of;

/// The prefix of `<prefix>/32=PA/54=<version>/50=0`.
std::optional<wire::NameView> announced_prefix(wire::NameView name) {
    const std::size_t size = name.size();
    if (size < 3) return std::nullopt;
    const wire::Element keyword = name.component(size - 3);
    const wire::Element segment = name.component(size - 1);
    const bool fits = keyword.type == wire::kKeywordComponent && text_of(keyword.value) == "PA" &&
                      name.component(size - 2).type == wire::kVersionComponent &&
                      segment.type == wire::kSegmentComponent &&
                      wire::read_nonnegative(segment.value) == 0U;
    return fits ? std::optional(name.prefix(size - 3)) : std::nullopt;
}

/// As certificates write it: 20261231T235959.
using CalendarTime = std::array<char, 15>;

CalendarTime calendar_time(std::chrono::sys_seconds time) {
    const auto day = std::chrono::floor<std::chrono::days>(time);
    const std::chrono::year_month_day date(day);
    const std::chrono::hh_mm_ss clock(time - day);
    std::array<char, 64> text{};
    // Truncation can only affect text after the 15 characters that are used.
    (void)std::snprintf(text.data(), text.size(), "%04d%02u%02uT%02d%02d%02d",
                        static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                        static_cast<unsigned>(date.day()), static_cast<int>(clock.hours().count()),
                        static_cast<int>(clock.minutes().count()),
                        static_cast<int>(clock.seconds().count()));
    CalendarTime written{};
    std::copy_n(text.begin(), written.size(), written.begin());
    return written;
}

std::optional<std::string_view> read_calendar_time(const std::optional<wire::Element>& element,
                                                   std::uint32_t type) {
    if (!element || element->type != type) return std::nullopt;
    const std::string_view text = text_of(element->value);
    return text.size() == CalendarTime().size() ? std::optional(text) : std::nullopt;
}

struct Validity {
    std::uint64_t expiration_period_ms = 0;
    std::optional<std::string_view> not_before;
    std::optional<std::string_view> not_after;
};

std::optional<Validity> read_content(wire::ByteView content) {
    Validity validity;
    wire::Reader reader(content);
    const auto period = reader.next();
    if (!period || period->type != kExpirationPeriod) return std::nullopt;
    const auto period_ms = wire::read_nonnegative(period->value);
    if (!period_ms) return std::nullopt;
    validity.expiration_period_ms = *period_ms;
    while (!reader.empty()) {
        const auto element = reader.next();
        if (!element) return std::nullopt;
        if (element->type != wire::kValidityPeriod) continue;
        wire::Reader period_reader(element->value);
        validity.not_before = read_calendar_time(period_reader.next(), kNotBefore);
        validity.not_after = read_calendar_time(period_reader.next(), kNotAfter);
        if (!validity.not_before || !validity.not_after) return std::nullopt;
    }
    return validity;
}

}  // namespace

std::variant<ControlParameters, ControlResponse> read_prefix_announcement(
    wire::ByteView packet, std::uint64_t wall_time_ms) {
    const auto data = wire::DataView::parse(packet);
    const auto prefix = data ? announced_prefix(data->name()) : std::nullopt;
    if (!prefix || data->content_type() != kAnnouncementType) {
        return ControlResponse{kBadRequest, "this is no prefix announcement", {}};
    }
    const auto validity = read_content(data->content());
    if (!validity) return ControlResponse{kBadRequest, "malformed prefix announcement", {}};
    const std::chrono::sys_time<std::chrono::milliseconds> now{
        std::chrono::milliseconds(wall_time_ms)};
    const CalendarTime now_text = calendar_time(std::chrono::floor<std::chrono::seconds>(now));
    const std::string_view now_view(now_text.data(), now_text.size());
    ControlParameters route;
    route.name.emplace(*prefix);
    if (validity->expiration_period_ms == 0 ||
        (validity->not_before && now_view < *validity->not_before) ||
        (validity->not_after && now_view > *validity->not_after)) {
        return ControlResponse{kExpired, "the prefix announcement is not valid now", route};
    }
    route.origin = kAnnouncedOrigin;
    route.cost = kAnnouncedCost;
    route.flags = kChildInherit;
    route.expiration_period_ms = validity->expiration_period_ms;
    return route;
}

}  // namespace innet::management
