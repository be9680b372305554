#include "transport/version.hpp"

namespace innet {

std::string_view version() noexcept { return INNET_VERSION; }

}  // namespace innet
