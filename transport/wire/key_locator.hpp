#pragma once
// KeyLocator (NDN Packet Format v0.3, section 5.2): the same in the signatures of Data and
// Interests.

#include "transport/wire/name.hpp"
#include "transport/wire/tlv.hpp"

namespace innet::wire {

/// Reads a KeyLocator's value: a Name (then `key_name`) or a KeyDigest (then it stays as it is).
/// False when it is malformed.
bool read_key_locator(ByteView value, NameView& key_name);

}  // namespace innet::wire
