#include "switch_emulator/management/authorisation.hpp"

#include <algorithm>
#include <stdexcept>

namespace innet::management {

namespace {

Bytes joined(const std::array<wire::ByteView, 2>& parts) {
    Bytes whole(parts[0].begin(), parts[0].end());
    whole.insert(whole.end(), parts[1].begin(), parts[1].end());
    return whole;
}

}  // namespace

Authorisation::Authorisation(const AuthorisationOptions& options, ReplayGuard& replays)
    : localhop_rib_(options.localhop_rib), replays_(&replays) {
    if (localhop_rib_ && options.keys.empty()) {
        throw std::invalid_argument(
            "commands from one hop away are obeyed by their keys alone: name at least one key");
    }
    for (const AllowedKey& key : options.keys) {
        if (!keyring_.add(key.type, key.name, key.key)) {
            throw std::invalid_argument("the key " + key.name.view().to_uri() +
                                        " for management commands is malformed");
        }
        keys_.push_back({key.name, key.not_after_ms});
    }
    // Programs that may open the socket's file may send commands, unless a list of keys is set.
    keyring_.accept_digest(keys_.empty());
}

Authorisation::Ruling Authorisation::judge(const Request& request) {
    if (request.localhop && !(localhop_rib_ && request.module == "rib")) {
        return Ruling::kNotLocalhop;
    }
    if (!request.signature) return Ruling::kUnsigned;
    if (keys_.empty() && !request.admitted_by_file) return Ruling::kKeyless;
    // A claimed, unverified key must not advance the replay state of the true key.
    const FaceId signer_face = keys_.empty() ? request.from : kNoFace;
    // Before the signature, whose verification takes most of the time.
    if (replays_->is_stale(signer_face, request.signature->info, request.wall_time_ms)) {
        return Ruling::kStale;
    }
    const Ruling ruling = check_signature(request);
    if (ruling != Ruling::kAllowed) return ruling;
    switch (replays_->admit(signer_face, request.signature->info, request.wall_time_ms)) {
        case ReplayGuard::Ruling::kFresh:
            return Ruling::kAllowed;
        case ReplayGuard::Ruling::kStale:
            return Ruling::kStale;
        case ReplayGuard::Ruling::kReplayed:
            break;
    }
    return Ruling::kReplayed;
}

Authorisation::Ruling Authorisation::judge_announcement(const wire::DataView& announcement,
                                                        std::uint64_t wall_time_ms) const {
    if (announcement.signature_type() == wire::SignatureType::kNull) return Ruling::kUnsigned;
    security::SignedBytes claim{.name = announcement.name(),
                                .type = announcement.signature_type(),
                                .key_name = announcement.key_name(),
                                .signed_portion = announcement.signed_portion(),
                                .signature = announcement.signature_value()};
    const Ruling ruling = find_key(claim, wall_time_ms);
    return ruling == Ruling::kAllowed ? verify(claim) : ruling;
}

Authorisation::Ruling Authorisation::check_signature(const Request& request) {
    const wire::InterestSignature& signature = *request.signature;
    security::SignedBytes claim{.name = request.interest_name,
                                .type = signature.info.type,
                                .key_name = signature.info.key_name,
                                .signed_portion = {},
                                .signature = signature.value};
    if (const Ruling ruling = find_key(claim, request.wall_time_ms); ruling != Ruling::kAllowed) {
        return ruling;
    }
    // Nonces and sequence numbers are forgotten when the node ends.
    if (!keys_.empty() && !signature.info.time_ms) return Ruling::kUntimed;
    const Bytes signed_portion = joined(signature.signed_parts);
    claim.signed_portion = signed_portion;
    return verify(claim);
}

Authorisation::Ruling Authorisation::find_key(security::SignedBytes& claim,
                                              std::uint64_t wall_time_ms) const {
    if (keys_.empty()) return Ruling::kAllowed;
    // Clients point at the key or at one of its certificates.
    if (claim.type == wire::SignatureType::kDigestSha256) return Ruling::kUnknownKey;
    const auto names = [&](const Listed& key) {
        return key.name.view().is_prefix_of(claim.key_name);
    };
    // A key that was certified again is listed twice.
    const auto valid = std::ranges::find_if(
        keys_, [&](const Listed& key) { return names(key) && wall_time_ms <= key.not_after_ms; });
    if (valid == keys_.end()) {
        return std::ranges::any_of(keys_, names) ? Ruling::kExpired : Ruling::kUnknownKey;
    }
    claim.key_name = valid->name.view();
    return Ruling::kAllowed;
}

// Without a list of keys, any key's signature is accepted, because this node cannot verify it.
Authorisation::Ruling Authorisation::verify(const security::SignedBytes& claim) const {
    const bool is_digest = claim.type == wire::SignatureType::kDigestSha256;
    if (keys_.empty() && !is_digest) return Ruling::kAllowed;
    return keyring_.verify(claim) == security::Verdict::kValid ? Ruling::kAllowed
                                                               : Ruling::kBadSignature;
}

std::string_view describe(Authorisation::Ruling ruling) {
    switch (ruling) {
        case Authorisation::Ruling::kAllowed:
            return "OK";
        case Authorisation::Ruling::kUnsigned:
            return "commands must be signed";
        case Authorisation::Ruling::kNotLocalhop:
            return "not obeyed from /localhop here";
        case Authorisation::Ruling::kKeyless:
            return "over TCP and UDP only listed keys may command: connect to the Unix socket, or "
                   "list the key's certificate (--commands-by)";
        case Authorisation::Ruling::kUnknownKey:
            return "this key may not command this node";
        case Authorisation::Ruling::kExpired:
            return "the certificate of this key has expired: issue another one (innet keys issue)";
        case Authorisation::Ruling::kBadSignature:
            return "the signature is wrong";
        case Authorisation::Ruling::kUntimed:
            return "a command that a key signs must bear its time";
        case Authorisation::Ruling::kStale:
            return "its time is not within two minutes of this node's, or before its start";
        case Authorisation::Ruling::kReplayed:
            return "not newer than this signer's last command";
    }
    return "";
}

}  // namespace innet::management
