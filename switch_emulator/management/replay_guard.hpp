#pragma once
// Whether a signed command is fresh: given just now, and newer than those that its signer has
// given before.

#include <algorithm>
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

/// Remembers the newest time, the nonces of that time, those without a time, and the highest
/// sequence number of each signer (NDN Packet Format v0.3, section 5.4.1). Times are near the wall
/// clock's, as ndn-cxx's ValidationPolicyCommandInterest has it, so that what has been forgotten is
/// refused for its age. Bounded: the signer longest silent is forgotten first, and of each signer,
/// the oldest nonces.
class ReplayGuard {
  public:
    /// How far a command's time may be from the node's, either way.
    static constexpr std::uint64_t kGracePeriodMs = 120'000;

    /// `started_ms`: when the node was started, since 1970. What a key has signed before it may
    /// have been obeyed already, by a node that is no more.
    explicit ReplayGuard(std::uint64_t started_ms = 0, std::size_t max_signers = 4096)
        : started_ms_(started_ms), max_signers_(max_signers) {}

    enum class Ruling : std::uint8_t {
        kFresh,
        kStale,     ///< its time is not near this node's, or before its start
        kReplayed,  ///< not newer than the signer's last
    };
    /// Records a fresh command: a second time it is a replay. The key identifies the signer; for an
    /// unverified signature, the key and `face` do (kNoFace for a verified one). A command without
    /// time, nonce and sequence number is always fresh. `now_ms` since 1970.
    Ruling admit(FaceId face, const wire::InterestSignatureInfo& info, std::uint64_t now_ms);
    /// Whether `admit` would refuse it for its time, which needs no verified signature.
    bool is_stale(FaceId face, const wire::InterestSignatureInfo& info, std::uint64_t now_ms) const;
    void on_face_closed(FaceId face);
    /// The wall clock says `now_ms`: when it was set back to before the node's start, what is
    /// signed from now on is no older than the node.
    void on_wall_clock(std::uint64_t now_ms) { started_ms_ = std::min(started_ms_, now_ms); }

  private:
    using Signer = std::pair<FaceId, wire::Name>;

    /// The newest nonces, each once.
    class Nonces {
      public:
        bool contains(wire::ByteView nonce) const { return known_.contains(kept_of(nonce)); }
        void add(wire::ByteView nonce);
        void clear();

      private:
        static std::string kept_of(wire::ByteView nonce);

        std::set<std::string> known_;
        std::deque<std::set<std::string>::iterator> by_age_;
    };

    struct Newest {
        std::uint64_t time_ms = 0;
        std::optional<std::uint64_t> sequence;
        Nonces of_time;  ///< of commands of `time_ms`
        Nonces untimed;
        std::list<Signer>::iterator place;
    };

    Newest& newest_of(const Signer& signer);
    static bool is_newer(const Newest& newest, const wire::InterestSignatureInfo& info);
    static void remember(Newest& newest, const wire::InterestSignatureInfo& info);

    std::uint64_t started_ms_;
    std::size_t max_signers_;
    std::map<Signer, Newest> signers_;
    std::list<Signer> by_silence_;  ///< the one heard last in front
};

}  // namespace innet::management
