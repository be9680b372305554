#include "switch_emulator/management/replay_guard.hpp"

namespace innet::management {

namespace {

/// Without times, old nonces cannot be told from new ones otherwise than by remembering them.
constexpr std::size_t kMaxNonces = 1024;

std::string text_of(wire::ByteView view) { return {view.begin(), view.end()}; }

}  // namespace

bool ReplayGuard::admit(FaceId face, const wire::InterestSignatureInfo& info) {
    if (!info.time_ms && info.nonce.empty() && !info.sequence) return true;
    Newest& newest = newest_of({face, wire::Name(info.key_name)});
    if (!is_newer(newest, info)) return false;
    remember(newest, info);
    return true;
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
    const std::uint64_t time_ms = info.time_ms.value_or(newest.time_ms);
    if (time_ms != newest.time_ms) return time_ms > newest.time_ms;
    if (info.nonce.empty()) return info.sequence.has_value();
    return !newest.nonces.contains(text_of(info.nonce));
}

void ReplayGuard::remember(Newest& newest, const wire::InterestSignatureInfo& info) {
    if (info.sequence) newest.sequence = info.sequence;
    if (info.time_ms && *info.time_ms != newest.time_ms) {
        newest.time_ms = *info.time_ms;
        newest.nonces_by_age.clear();
        newest.nonces.clear();
    }
    if (info.nonce.empty()) return;
    newest.nonces_by_age.push_back(newest.nonces.insert(text_of(info.nonce)).first);
    if (newest.nonces_by_age.size() > kMaxNonces) {
        newest.nonces.erase(newest.nonces_by_age.front());
        newest.nonces_by_age.pop_front();
    }
}

}  // namespace innet::management
