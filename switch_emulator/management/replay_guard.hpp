#pragma once
// Whether a signed command is newer than those that its signer has sent before.

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "switch_emulator/forwarding/face.hpp"
#include "transport/wire/interest_signature.hpp"

namespace innet::management {

/// Remembers the newest time, the nonces of that time and the highest sequence number of each
/// signer (NDN Packet Format v0.3, section 5.4.1). Bounded: the signer longest silent is forgotten
/// first, and of each signer, the oldest nonces.
class ReplayGuard {
  public:
    explicit ReplayGuard(std::size_t max_signers = 4096) : max_signers_(max_signers) {}

    /// Admits a command, once. Who signs is the key, and `face` beside it where nobody has verified
    /// that it was this key: kNoFace for a verified one. What carries neither time, nonce nor
    /// sequence number is always new.
    bool admit(FaceId face, const wire::InterestSignatureInfo& info);
    void on_face_closed(FaceId face);

  private:
    using Signer = std::pair<FaceId, wire::Name>;

    struct Newest {
        std::uint64_t time_ms = 0;
        std::optional<std::uint64_t> sequence;
        std::set<std::string> nonces;  ///< of commands of `time_ms`
        std::deque<std::set<std::string>::iterator> nonces_by_age;
        std::list<Signer>::iterator place;
    };

    Newest& newest_of(const Signer& signer);
    static bool is_newer(const Newest& newest, const wire::InterestSignatureInfo& info);
    static void remember(Newest& newest, const wire::InterestSignatureInfo& info);

    std::size_t max_signers_;
    std::map<Signer, Newest> signers_;
    std::list<Signer> by_silence_;  ///< the one heard last in front
};

}  // namespace innet::management
