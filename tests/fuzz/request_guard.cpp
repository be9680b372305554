// Requests to a home: a name of any bytes is admitted only with the right tag, and executed once.

#include "transport/object/request_guard.hpp"

#include <array>
#include <chrono>
#include <string>

#include "tests/fuzz/require.hpp"
#include "transport/wire/text.hpp"

namespace {

using innet::RequestGuard;
using innet::RequestProof;
using innet::fuzz::require;
using innet::wire::ByteView;
using innet::wire::Name;
using innet::wire::NameView;

constexpr std::uint64_t kSession = 0x0123456789abcdef;
constexpr std::size_t kPlace = 2;  ///< of the proof, behind the prefix and the requester
constexpr std::array<std::uint8_t, 3> kKey{1, 2, 3};

RequestGuard new_guard() {
    Name requests;
    return {requests.append("requests"), kKey, kSession};
}

Name with_proof(NameView request, const std::string& proof) {
    Name made(request.prefix(kPlace));
    made.append(proof);
    for (std::size_t index = kPlace + 1; index < request.size(); ++index) {
        made.append(request.component(index).type, request.component(index).value);
    }
    return made;
}

/// The name as text.
std::string text_of(NameView name) {
    std::string text;
    for (std::size_t index = 0; index < name.size(); ++index) {
        text += "/" + std::string(innet::wire::text_of(name.component(index).value));
    }
    return text;
}

/// The request with the right tag behind the numbers of its proof.
Name tagged(NameView request, const std::string& numbers) {
    innet::RequestTagger tagger(kKey);
    const std::string text = text_of(with_proof(request, numbers).view());
    return with_proof(request, numbers + innet::digits_of(tagger.tag(innet::wire::bytes_of(text))));
}

/// Whether text tells the name from others.
bool is_plain(NameView name) {
    for (std::size_t index = 0; index < name.size(); ++index) {
        const innet::wire::Element component = name.component(index);
        const bool has_slash =
            innet::wire::text_of(component.value).find('/') != std::string_view::npos;
        if (component.type != innet::wire::kGenericComponent || has_slash) return false;
    }
    return true;
}

void execute_once(RequestGuard& guard, NameView request, innet::TimePoint now) {
    require(guard.admits(request, now), "a request with the right tag is admitted");
    const bool is_for_session =
        innet::wire::text_of(request.component(kPlace + 1).value) == "session";
    require(guard.begins(request), "a new request is executed");
    require(guard.admits(request, now), "a repeated request waits for its answer");
    require(guard.begins(request) == is_for_session, "a request is executed once");
}

}  // namespace

/// A name as it is; and the same with the right tag, if its third component has the other digits.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    const auto request = NameView::parse(ByteView(bytes, size));
    if (!request) return 0;
    RequestGuard guard = new_guard();
    const innet::TimePoint now{std::chrono::seconds(1)};
    require(!guard.admits(*request, now), "only a holder of the key makes tags");
    guard.begins(*request);
    if (request->size() < kPlace + 2) return 0;
    const std::string numbers(innet::wire::text_of(request->component(kPlace).value));
    const std::string in_session = "0123456789abcdef";
    const Name whole = tagged(*request, numbers);
    const auto proof = RequestProof::parse(whole.view().component(kPlace).value);
    if (numbers.size() != RequestProof::kNumberDigits || !proof || !is_plain(whole.view())) {
        require(!guard.admits(whole.view(), now), "a malformed request is none");
        return 0;
    }
    RequestGuard fresh = new_guard();
    const Name current = tagged(*request, in_session + numbers.substr(16));
    execute_once(fresh, current.view(), now);
    if (fresh.admits(whole.view(), now)) {
        const bool is_for_session =
            innet::wire::text_of(request->component(kPlace + 1).value) == "session";
        require(is_for_session || proof->session == kSession,
                "of another session none is admitted");
    }
    require(!fresh.admits(current.view(), now + RequestGuard::kSessionTime) ||
                innet::wire::text_of(request->component(kPlace + 1).value) == "session",
            "a session ends");
    return 0;
}
