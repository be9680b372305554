#pragma once
// Whether an Interest carries the parameters that its name says (NDN Packet Format v0.3, section
// 2.3: ParametersSha256DigestComponent).

#include "transport/security/sha256.hpp"
#include "transport/wire/interest.hpp"

namespace innet::security {

/// True for an Interest without parameters, and for one whose ParametersSha256Digest is that of
/// everything from its ApplicationParameters to its end.
bool parameters_digest_holds(const wire::InterestView& interest, Sha256& sha256);

}  // namespace innet::security
