#pragma once
// What management says to a command.

#include <cstdint>
#include <string>

#include "switch_emulator/management/control_parameters.hpp"

namespace innet::management {

/// Status codes of the management protocol (they resemble HTTP's).
enum StatusCode : std::uint32_t {
    kOk = 200,
    kBadRequest = 400,
    kForbidden = 403,
    kNotFound = 404,
    kNotAcceptable = 406,
    kConflict = 409,
    kGone = 410,
    kNameTooLong = 414,
    kExpired = 416,
    kNotImplemented = 501,
    kFull = 503,
};

struct ControlResponse {
    std::uint32_t code = kOk;
    std::string text = "OK";
    /// Always written, in errors as well: older clients (python-ndn's NDNApp) fail without.
    ControlParameters body;

    Bytes encode() const;
};

}  // namespace innet::management
