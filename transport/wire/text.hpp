#pragma once
// Text from the network: valid labels, and truncation of longer text.

#include <string_view>

#include "transport/wire/tlv.hpp"

namespace innet::wire {

/// As long as the longest name of a node (innet/topology/names.py).
inline constexpr std::size_t kMaxLabelSize = 32;

/// Of an error's text for people (TensorError), sent or received; longer ones are cut.
inline constexpr std::size_t kMaxErrorText = 2048;

/// Whether `label` can name a late producer: 1 to kMaxLabelSize printable ASCII characters.
bool is_label(ByteView label);

/// The longest beginning of `text` of at most `limit` bytes that ends between two characters of
/// UTF-8 (RFC 3629). Bytes that are not UTF-8 are cut at `limit`, or up to 3 bytes before it.
std::string_view cut_text(std::string_view text, std::size_t limit);

}  // namespace innet::wire
