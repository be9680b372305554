#pragma once
// MACs that are made when a packet leaves its machine, and not before: links in shared memory reach
// processes of the same run alone (docs/trust.md). Until then zeros are in the MAC's place.

#include <span>

#include "transport/buffer/packet_ref.hpp"
#include "transport/security/keyring.hpp"
#include "transport/wire/data.hpp"

namespace innet::security {

/// Whether packets of this signer get their MAC late. Every node that forwards them has the key, so
/// each can make it.
bool signs_late(const Signer& signer);

/// Signs a packet that is laid out, or leaves that to the node that sends it off the machine. False
/// when the key can sign no more.
[[nodiscard]] bool sign_or_defer(PacketRef& packet, const wire::DataLayout& layout, Signer& signer);

/// Whether the packet is one that gets its MAC late, and has none yet.
bool lacks_mac(const wire::DataView& data);

/// Puts the MAC into a packet that lacks it; `frame` is the packet's. False when it is not this
/// signer's, or the key can sign no more.
[[nodiscard]] bool add_mac(const PacketRef& packet, const wire::DataFrame& frame, Signer& signer);

}  // namespace innet::security
