#pragma once
// KeyLocator (NDN Packet Format v0.3, section 5.2) of Data and Interest
// signatures.

#include "transport/wire/name.hpp"
#include "transport/wire/tlv.hpp"

namespace innet::wire {

/// Reads a KeyLocator's value: a Name (then `key_name`) or a KeyDigest (`key_name` is unchanged).
/// False when it is malformed.
bool read_key_locator(ByteView value, NameView& key_name);

}  // namespace innet::wire
