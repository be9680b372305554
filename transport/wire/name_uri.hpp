#pragma once
// What is wrong with a URI that gives no name.

#include <string_view>

namespace innet::wire {

/// Why `Name::from_uri` refuses the URI; null when it does not.
const char* uri_error(std::string_view uri);

}  // namespace innet::wire
