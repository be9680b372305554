#pragma once
// Fields of a Data packet that only applications read: kept out of DataView, which is built for
// every packet.

#include "transport/wire/data.hpp"
#include "transport/wire/tlv.hpp"

namespace innet::wire {

/// Parts of a Data packet, empty when missing. Views into the packet.
struct DataDetails {
    ByteView final_component;  ///< FinalBlockId: one component, with its type and length
    ByteView signature_info;   ///< value of SignatureInfo
    ByteView key_digest;       ///< KeyLocator's, when it has no name
    /// Of a certificate: value of its ValidityPeriod.
    ByteView validity_period;

    /// Reads a packet that `DataView::parse` has checked.
    static DataDetails of(const DataView& data);
};

}  // namespace innet::wire
