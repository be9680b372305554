#include "transport/object/request_guard.hpp"

#include <openssl/crypto.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "transport/wire/text.hpp"

namespace innet {

namespace {

constexpr std::string_view kSessionVerb = "session";
constexpr std::string_view kHexadecimalDigits = "0123456789abcdef";
constexpr int kHexadecimal = 16;
constexpr std::uint8_t kSeparator = '/';

/// Reads all of `digits`; nothing when one is not a lower-case hexadecimal digit.
template <typename Number>
std::optional<Number> number_of(std::string_view digits) {
    if (digits.find_first_not_of(kHexadecimalDigits) != std::string_view::npos) return std::nullopt;
    Number number = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), number, kHexadecimal);
    return number;
}

}  // namespace

std::optional<RequestProof> RequestProof::parse(wire::ByteView component) {
    if (component.size() != kDigits) return std::nullopt;
    const std::string_view digits = wire::text_of(component);
    const auto session = number_of<std::uint64_t>(digits.substr(0, 16));
    const auto sender = number_of<std::uint64_t>(digits.substr(16, 16));
    const auto number = number_of<std::uint32_t>(digits.substr(32, 8));
    if (!session || !sender || !number) return std::nullopt;
    RequestProof proof{*session, *sender, *number, {}};
    for (std::size_t index = 0; index < proof.tag.size(); ++index) {
        const auto byte = number_of<std::uint8_t>(digits.substr(kNumberDigits + 2 * index, 2));
        if (!byte) return std::nullopt;
        proof.tag[index] = *byte;
    }
    return proof;
}

bool NumberWindow::use(std::uint32_t number) {
    if (number > highest_) {
        // Words of numbers that nobody has used yet are those of numbers a window ago.
        const std::uint32_t first = number - highest_ >= kSize ? number - kSize : highest_;
        for (std::uint32_t next = first + 1; next <= number && next != 0; ++next) {
            word_of(next) &= ~bit_of(next);
        }
        highest_ = number;
    }
    const bool is_new = (word_of(number) & bit_of(number)) == 0;
    word_of(number) |= bit_of(number);
    return is_new;
}

std::string digits_of(const security::SegmentTag& tag) {
    std::string digits;
    for (const std::uint8_t byte : tag) {
        digits += kHexadecimalDigits[byte >> 4U];
        digits += kHexadecimalDigits[byte & 0xfU];
    }
    return digits;
}

security::SegmentTag RequestTagger::tag(wire::ByteView text) {
    const security::Sha256Digest whole = function_.tag(text);
    security::SegmentTag tag;
    std::copy_n(whole.begin(), tag.size(), tag.begin());
    return tag;
}

std::optional<RequestGuard::Request> RequestGuard::parse(wire::NameView name) const {
    wire::Reader reader(name.value().subspan(name.prefix(place_).value().size()));
    const auto component = reader.next();
    const auto verb = component ? reader.next() : std::nullopt;
    if (!verb) return std::nullopt;
    const auto proof = RequestProof::parse(component->value);
    if (!proof) return std::nullopt;
    return Request{*proof, wire::text_of(verb->value) == kSessionVerb};
}

std::optional<wire::ByteView> RequestGuard::text_of(wire::NameView name) {
    text_.clear();
    wire::Reader reader(name.value());
    for (std::size_t index = 0; const auto component = reader.next(); ++index) {
        wire::ByteView value = component->value;
        const bool is_text = component->type == wire::kGenericComponent &&
                             std::ranges::find(value, kSeparator) == value.end();
        if (!is_text) return std::nullopt;
        if (index == place_) value = value.first(RequestProof::kNumberDigits);
        text_.push_back(kSeparator);
        text_.insert(text_.end(), value.begin(), value.end());
    }
    return text_;
}

bool RequestGuard::is_authentic(wire::NameView name, const RequestProof& proof) {
    const auto text = text_of(name);
    if (!text) return false;
    const security::SegmentTag right = tagger_.tag(*text);
    return CRYPTO_memcmp(right.data(), proof.tag.data(), right.size()) == 0;
}

bool RequestGuard::admits(wire::NameView name, TimePoint now) {
    const auto request = parse(name);
    if (!request || !is_authentic(name, request->proof)) return false;
    if (!session_began_) session_began_ = now;
    if (now - *session_began_ >= kSessionTime) {
        begin_session();
        session_began_ = now;
    }
    if (request->is_for_session) return true;
    const RequestProof& proof = request->proof;
    if (proof.session != session_.load()) return false;
    const auto sender = senders_.find(proof.sender);
    if (sender != senders_.end()) return !sender->second.is_past(proof.number);
    if (senders_.size() < kMaxSenders) return true;
    begin_session();
    return false;
}

bool RequestGuard::begins(wire::NameView name) {
    const auto request = parse(name);
    if (!request) return false;
    return request->is_for_session || senders_[request->proof.sender].use(request->proof.number);
}

void RequestGuard::begin_session() {
    session_.fetch_add(1);
    senders_.clear();
}

}  // namespace innet
