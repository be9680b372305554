#pragma once
// All formats, by the component that names them.

#include <string_view>

#include "switch_emulator/reduction/formats/format.hpp"

namespace innet::reduction {

/// The format of `<op>.<type>`, such as `sum.f32`, or null. It lives as long as the program.
const Format* find_format(std::string_view kind);

}  // namespace innet::reduction
