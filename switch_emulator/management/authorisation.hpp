#pragma once
// Authorises management commands.

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "switch_emulator/management/message.hpp"
#include "switch_emulator/management/replay_guard.hpp"
#include "transport/security/keyring.hpp"

namespace innet::management {

inline constexpr std::uint64_t kNeverExpires = std::numeric_limits<std::uint64_t>::max();

/// A key whose commands are obeyed. Its certificates have names below its own.
struct AllowedKey {
    wire::SignatureType type = wire::SignatureType::kEd25519;
    wire::Name name;
    Bytes key;                                   ///< as `Keyring::add` takes it
    std::uint64_t not_after_ms = kNeverExpires;  ///< since 1970: of its certificate
};

struct AuthorisationOptions {
    /// Empty: every program that a Unix socket's file admits, signed by whatever key or its digest.
    std::vector<AllowedKey> keys;
    /// Whether `/localhop/nfd/rib` commands of these keys are obeyed, from faces that are not
    /// local, too.
    bool localhop_rib = false;
};

class Authorisation {
  public:
    /// `replays` outlives it. Throws std::invalid_argument for a malformed key, and without any
    /// when `localhop_rib` is set: unverified signatures do not identify remote clients.
    Authorisation(const AuthorisationOptions& options, ReplayGuard& replays);

    struct Request {
        FaceId from = kNoFace;
        /// As `FaceOptions` says of the face.
        bool admitted_by_file = false;
        bool localhop = false;
        std::string_view module;
        wire::NameView interest_name;
        const std::optional<wire::InterestSignature>& signature;
        std::uint64_t wall_time_ms = 0;  ///< since 1970
    };
    enum class Ruling : std::uint8_t {
        kAllowed,
        kUnsigned,      ///< commands are signed, if only by their digest
        kNotLocalhop,   ///< this is not commanded from one hop away
        kKeyless,       ///< came over TCP or UDP, and no keys are listed
        kUnknownKey,    ///< not one of the keys
        kExpired,       ///< its certificate counts no longer
        kBadSignature,  ///< not what this key, or the digest, gives
        kUntimed,       ///< signed by a key, and without a time
        kStale,         ///< its time is not near this node's
        kReplayed,      ///< not newer than the signer's last
    };
    /// An allowed command counts as seen: a second time it is a replay.
    Ruling judge(const Request& request);
    /// Whether the key that signed a prefix announcement may: the same keys as of commands.
    Ruling judge_announcement(const wire::DataView& announcement, std::uint64_t wall_time_ms) const;

  private:
    struct Listed {
        wire::Name name;
        std::uint64_t not_after_ms;
    };

    /// Not allowed: why it need not be verified.
    Ruling find_key(security::SignedBytes& claim, std::uint64_t wall_time_ms) const;
    Ruling check_signature(const Request& request);
    Ruling verify(const security::SignedBytes& claim) const;

    bool localhop_rib_;
    std::vector<Listed> keys_;
    security::Keyring keyring_;
    ReplayGuard* replays_;
};

/// The status text for the client.
std::string_view describe(Authorisation::Ruling ruling);

}  // namespace innet::management
