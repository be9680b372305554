#pragma once
// Command Interests in the three shapes that are in use.

#include <cstdint>
#include <optional>
#include <string_view>

#include "transport/security/sha256.hpp"
#include "transport/wire/interest.hpp"
#include "transport/wire/interest_signature.hpp"

namespace innet::management {

/// What an Interest below a management prefix is about: `/localhost/nfd/<module>/<verb>/...`.
struct Address {
    bool localhop = false;
    std::string_view module;
    std::string_view verb;
    wire::NameView rest;  ///< components after the verb

    /// `name` begins with a management prefix. Nothing when there is no module or no verb.
    static std::optional<Address> read(wire::NameView name);
};

/// The payload of a command and its signer. Views into the Interest.
struct Command {
    /// ControlParameters, or the prefix announcement (a Data packet) of rib/announce.
    wire::ByteView payload;
    /// Unset when the command is not signed.
    std::optional<wire::InterestSignature> signature;
};

/// Reads what stands after `<module>/<verb>`, which is one of
/// * `<ControlParameters>/<params-sha256>`, a signed Interest of packet format v0.3;
/// * `<ControlParameters>/<timestamp>/<nonce>/<SignatureInfo>/<SignatureValue>`, the older one
///   (ndn-cxx 0.6.6, "Command Interest");
/// * `<params-sha256>`, with the payload in ApplicationParameters (rib/announce);
/// * `<ControlParameters>`, not signed.
/// Nothing when it is none of these, or when the digest of the parameters does not hold.
std::optional<Command> read_command(const wire::InterestView& interest, const Address& address,
                                    security::Sha256& sha256);

}  // namespace innet::management
