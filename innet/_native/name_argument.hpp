#pragma once
// Names as Python gives them: URIs.

#include <string_view>

#include "transport/wire/name.hpp"

namespace innet::bindings {

/// Throws ValueError (in Python) when `uri` is malformed.
wire::Name name_from_uri(std::string_view uri);

}  // namespace innet::bindings
