#include <cstdlib>

#include "transport/security/gmac_ipsec_mb.hpp"

namespace innet::security {

bool ipsec_mb_suits_cpu() { return false; }
std::string ipsec_mb_name() { std::abort(); }
std::unique_ptr<Gmac::Algorithm> make_ipsec_mb_gmac(wire::ByteView) { std::abort(); }

}  // namespace innet::security
