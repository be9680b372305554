#include "transport/object/request_guard.hpp"

#include <openssl/crypto.h>

#include <array>
#include <charconv>
#include <string_view>

#include "transport/wire/text.hpp"

namespace innet {

namespace {

constexpr std::string_view kSessionVerb = "session";
constexpr std::string_view kDigitsOfNumbers = "0123456789abcdef";
constexpr int kHexadecimal = 16;

/// Reads all of `digits`; nothing when one is not a lower-case hexadecimal digit.
template <typename Number>
std::optional<Number> number_of(std::string_view digits) {
    if (digits.find_first_not_of(kDigitsOfNumbers) != std::string_view::npos) return std::nullopt;
    Number number = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), number, kHexadecimal);
    return number;
}

bool is_session_verb(wire::ByteView verb) { return wire::text_of(verb) == kSessionVerb; }

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

std::optional<RequestGuard::Request> RequestGuard::parse(wire::NameView name) const {
    const wire::NameView before = name.prefix(place_);
    wire::Reader reader(name.value().subspan(before.value().size()));
    const auto component = reader.next();
    if (!component || component->type != wire::kGenericComponent) return std::nullopt;
    const auto proof = RequestProof::parse(component->value);
    const wire::ByteView behind = reader.rest();
    const auto verb = reader.next();
    if (!proof || !verb || verb->type != wire::kGenericComponent) return std::nullopt;
    return Request{before, *proof, component->value.first(RequestProof::kNumberDigits), verb->value,
                   behind};
}

bool RequestGuard::is_authentic(const Request& request) {
    constexpr std::array<std::uint8_t, 2> kNumbersHead{wire::kGenericComponent,
                                                       RequestProof::kNumberDigits};
    message_.clear();
    for (const wire::ByteView part :
         {request.before.value(), wire::ByteView(kNumbersHead), request.numbers, request.behind}) {
        message_.insert(message_.end(), part.begin(), part.end());
    }
    const security::Sha256Digest right = function_.tag(message_);
    const security::SegmentTag& tag = request.proof.tag;
    return CRYPTO_memcmp(right.data(), tag.data(), tag.size()) == 0;
}

bool RequestGuard::admits(wire::NameView name, TimePoint now) {
    const auto request = parse(name);
    if (!request || !is_authentic(*request)) return false;
    if (!session_began_) session_began_ = now;
    if (now - *session_began_ >= kSessionTime) {
        begin_session();
        session_began_ = now;
    }
    if (is_session_verb(request->verb)) return true;
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
    return is_session_verb(request->verb) ||
           senders_[request->proof.sender].use(request->proof.number);
}

void RequestGuard::begin_session() {
    session_.fetch_add(1);
    senders_.clear();
}

}  // namespace innet
