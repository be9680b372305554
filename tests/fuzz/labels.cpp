// Labels of Holds, and texts that are cut where they are too long.

#include <algorithm>
#include <string_view>
#include <vector>

#include "tests/fuzz/require.hpp"
#include "transport/wire/lp.hpp"
#include "transport/wire/text.hpp"

namespace {

using innet::fuzz::require;
using innet::wire::ByteView;

/// An Interest for `/a`.
constexpr std::uint8_t kInterest[] = {0x05, 0x05, 0x07, 0x03, 0x08, 0x01, 'a'};

/// How long the character of UTF-8 is that `text` begins with; 0: none (RFC 3629, section 4).
std::size_t character_size(std::string_view text) {
    const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
    const std::uint8_t first = at(0);
    if (first < 0x80) return 1;
    const std::size_t size = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (size == 0 || first > 0xf4 || text.size() < size) return 0;
    for (std::size_t i = 1; i < size; ++i) {
        if (at(i) < 0x80 || at(i) > 0xbf) return 0;
    }
    const bool is_valid = (first != 0xe0 || at(1) >= 0xa0) && (first != 0xed || at(1) <= 0x9f) &&
                          (first != 0xf0 || at(1) >= 0x90) && (first != 0xf4 || at(1) <= 0x8f);
    return is_valid ? size : 0;
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const std::size_t size = character_size(text);
        if (size == 0) return false;
        text.remove_prefix(size);
    }
    return true;
}

/// A Hold is read exactly when its label is one, and then the label is what was sent.
void hold(ByteView label) {
    innet::wire::LpFields fields;
    fields.hold_missing = label;
    std::vector<std::uint8_t> packet(label.size() + sizeof kInterest + 32);
    const std::size_t header = innet::wire::encode_lp_header(fields, sizeof kInterest, packet);
    std::copy_n(kInterest, sizeof kInterest, packet.begin() + static_cast<std::ptrdiff_t>(header));
    packet.resize(header + sizeof kInterest);
    const auto view = innet::wire::LpView::parse(packet);
    require(view.has_value() == innet::wire::is_label(label), "only labels are read");
    if (!view) return;
    require(std::ranges::equal(view->hold_missing(), label), "a label is read as it was sent");
    require(is_utf8({reinterpret_cast<const char*>(label.data()), label.size()}),
            "a label is text");
}

void cut(std::string_view text, std::size_t limit) {
    const std::string_view kept = innet::wire::cut_text(text, limit);
    require(text.starts_with(kept) && kept.size() <= limit, "a text is cut at its end");
    require(kept.size() == text.size() || kept.size() + 3 >= limit,
            "no more is cut than has to be");
    require(!is_utf8(text) || is_utf8(kept), "what is left of a text is text");
}

}  // namespace

/// The first byte is where the rest is cut.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    if (size == 0) return 0;
    const ByteView rest(bytes + 1, size - 1);
    hold(rest);
    cut({reinterpret_cast<const char*>(rest.data()), rest.size()}, bytes[0]);
    return 0;
}
