#pragma once
// Text from the network: valid labels, truncation of longer text, and errors that quote it.

#include <string>
#include <string_view>

#include "transport/wire/tlv.hpp"

namespace innet::wire {

/// As long as the longest name of a node (innet/topology/names.py).
inline constexpr std::size_t kMaxLabelSize = 32;

/// Of an error's text for people (TensorError), sent or received; longer ones are cut.
inline constexpr std::size_t kMaxErrorText = 2048;

/// Of what a rank called before; so many bytes fit beside a full segment.
inline constexpr std::size_t kMaxEarlierCalls = 40;
/// Of a rank that cannot know what the others called before: it agrees with all.
inline constexpr std::string_view kUnknownCalls = "?";

inline ByteView bytes_of(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

inline std::string_view text_of(ByteView bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Whether `label` can name a late producer: 1 to kMaxLabelSize printable ASCII characters.
bool is_label(ByteView label);

/// The longest beginning of `text` of at most `limit` bytes that ends between two characters of
/// UTF-8 (RFC 3629). Bytes that are not UTF-8 are cut at `limit`, or up to 3 bytes before it.
std::string_view cut_text(std::string_view text, std::size_t limit);

inline bool earlier_calls_agree(std::string_view left, std::string_view right) {
    return left == right || left == kUnknownCalls || right == kUnknownCalls;
}

/// The error of a call before which `left` and `right`, such as `rank 1` and `ranks 2-3`, called
/// different operations.
std::string earlier_calls_differ(std::string_view left, std::string_view called_left,
                                 std::string_view right, std::string_view called_right);

}  // namespace innet::wire
