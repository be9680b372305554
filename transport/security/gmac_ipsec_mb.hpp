#pragma once
// GMAC by Intel's multi-buffer library (ipsec-mb), if found at build time.

#include <memory>
#include <string>

#include "transport/security/gmac.hpp"
#include "transport/wire/tlv.hpp"

namespace innet::security {

/// Whether the module has the library, and the library multiplies 512 bits at once on this CPU. On
/// other CPUs OpenSSL is faster for messages of a packet's size.
bool ipsec_mb_suits_cpu();

/// Name and version.
std::string ipsec_mb_name();

/// Only where `ipsec_mb_suits_cpu`.
std::unique_ptr<Gmac::Algorithm> make_ipsec_mb_gmac(wire::ByteView key);

}  // namespace innet::security
