#pragma once
// Names as Python gives them: URIs.

#include <string>
#include <string_view>
#include <vector>

#include "transport/wire/name.hpp"

namespace innet::bindings {

/// Throws ValueError (in Python) when `uri` is malformed.
wire::Name name_from_uri(std::string_view uri);
std::vector<wire::Name> names_from_uris(const std::vector<std::string_view>& uris);

}  // namespace innet::bindings
