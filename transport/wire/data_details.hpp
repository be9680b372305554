#pragma once
// What applications ask of a Data packet and forwarders do not: kept out of DataView, which is made
// for every packet.

#include "transport/wire/data.hpp"
#include "transport/wire/tlv.hpp"

namespace innet::wire {

/// Parts of a Data packet, each empty when it is not there. Views into the packet.
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
