#include "switch_emulator/management/control_response.hpp"

namespace innet::management {

Bytes ControlResponse::encode() const {
    Message fields;
    fields.number(kStatusCode, code);
    fields.text(kStatusText, text);
    body.write_to(fields);
    Message whole;
    whole.nested(kControlResponse, fields);
    return whole.take();
}

}  // namespace innet::management
