#pragma once

#include <string_view>

namespace innet {

/// Version of the whole product, `major.minor.patch`, as pyproject.toml states it.
std::string_view version() noexcept;

}  // namespace innet
