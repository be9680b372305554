#include "switch_emulator/management/replay_guard.hpp"

#include <algorithm>

namespace innet::management {

namespace {

/// Without times, only remembered nonces distinguish old commands from new ones.
constexpr std::size_t kMaxNonces = 1024;
/// Compared bytes of a nonce: more bytes cost memory and avoid no further collisions.
constexpr std::size_t kMaxNonceBytes = 32;

}  // namespace

std::string ReplayGuard::Nonces::kept_of(wire::ByteView nonce) {
    const wire::ByteView kept = nonce.first(std::min(nonce.size(), kMaxNonceBytes));
    return {kept.begin(), kept.end()};
}

void ReplayGuard::Nonces::add(wire::ByteView nonce) {
    by_age_.push_back(known_.insert(kept_of(nonce)).first);
    if (by_age_.size() <= kMaxNonces) return;
    known_.erase(by_age_.front());
    by_age_.pop_front();
}

void ReplayGuard::Nonces::clear() {
    by_age_.clear();
    known_.clear();
}

ReplayGuard::Ruling ReplayGuard::admit(FaceId face, const wire::InterestSignatureInfo& info,
                                       std::uint64_t now_ms) {
    if (!info.time_ms && info.nonce.empty() && !info.sequence) return Ruling::kFresh;
    if (is_stale(face, info, now_ms)) return Ruling::kStale;
    Newest& newest = newest_of({face, wire::Name(info.key_name)});
    if (!is_newer(newest, info)) return Ruling::kReplayed;
    remember(newest, info);
    return Ruling::kFresh;
}

bool ReplayGuard::is_stale(FaceId face, const wire::InterestSignatureInfo& info,
                           std::uint64_t now_ms) const {
    if (!info.time_ms) return false;
    const std::uint64_t time_ms = *info.time_ms;
    const std::uint64_t apart_ms = std::max(time_ms, now_ms) - std::min(time_ms, now_ms);
    // A face has no past: what was signed for it came by it.
    return apart_ms > kGracePeriodMs || (face == kNoFace && time_ms < started_ms_);
}

void ReplayGuard::on_face_closed(FaceId face) {
    auto signer = signers_.lower_bound({face, wire::Name()});
    while (signer != signers_.end() && signer->first.first == face) {
        by_silence_.erase(signer->second.place);
        signer = signers_.erase(signer);
    }
}

ReplayGuard::Newest& ReplayGuard::newest_of(const Signer& signer) {
    const auto [known, is_new] = signers_.try_emplace(signer);
    Newest& newest = known->second;
    if (is_new) {
        by_silence_.push_front(signer);
    } else {
        by_silence_.splice(by_silence_.begin(), by_silence_, newest.place);
    }
    newest.place = by_silence_.begin();
    if (signers_.size() > max_signers_) {
        signers_.erase(by_silence_.back());
        by_silence_.pop_back();
    }
    return newest;
}

bool ReplayGuard::is_newer(const Newest& newest, const wire::InterestSignatureInfo& info) {
    if (info.sequence && newest.sequence && *info.sequence <= *newest.sequence) return false;
    if (!info.time_ms) {
        return info.nonce.empty() ? info.sequence.has_value()
                                  : !newest.untimed.contains(info.nonce);
    }
    if (*info.time_ms != newest.time_ms) return *info.time_ms > newest.time_ms;
    return info.nonce.empty() ? info.sequence.has_value() : !newest.of_time.contains(info.nonce);
}

void ReplayGuard::remember(Newest& newest, const wire::InterestSignatureInfo& info) {
    if (info.sequence) newest.sequence = info.sequence;
    if (info.time_ms && *info.time_ms != newest.time_ms) {
        newest.time_ms = *info.time_ms;
        newest.of_time.clear();
    }
    if (info.nonce.empty()) return;
    (info.time_ms ? newest.of_time : newest.untimed).add(info.nonce);
}

}  // namespace innet::management
