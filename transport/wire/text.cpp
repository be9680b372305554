#include "transport/wire/text.hpp"

#include <algorithm>

namespace innet::wire {

namespace {

/// A character of UTF-8 has at most this many bytes behind its first.
constexpr std::size_t kMaxContinuation = 3;

bool is_printable_ascii(std::uint8_t byte) { return byte >= 0x20 && byte <= 0x7e; }

bool is_continuation(char byte) { return (static_cast<std::uint8_t>(byte) & 0xc0U) == 0x80U; }

}  // namespace

bool is_label(ByteView label) {
    return !label.empty() && label.size() <= kMaxLabelSize &&
           std::ranges::all_of(label, is_printable_ascii);
}

std::string_view cut_text(std::string_view text, std::size_t limit) {
    if (text.size() <= limit) return text;
    std::size_t end = limit;
    while (end > 0 && limit - end < kMaxContinuation && is_continuation(text[end])) --end;
    return text.substr(0, end);
}

std::string earlier_calls_differ(std::string_view left, std::string_view called_left,
                                 std::string_view right, std::string_view called_right) {
    const auto shown = [](std::string_view called) {
        return called.empty() ? "nothing" : cut_text(called, kMaxEarlierCalls);
    };
    std::string text = "ranks called different operations in an earlier call: ";
    text.append(left).append(": ").append(shown(called_left)).append("; ");
    text.append(right).append(": ").append(shown(called_right));
    return text + ". This call fails on all of them, once; call it again";
}

}  // namespace innet::wire
