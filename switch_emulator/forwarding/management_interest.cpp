// Interests for the node itself.

#include <algorithm>
#include <string_view>

#include "switch_emulator/forwarding/node_state.hpp"
#include "transport/debug_log.hpp"

namespace innet::forwarding {

namespace {

using namespace std::string_view_literals;

// The encoded prefixes: one look at the bytes of a name must be enough, it is every Interest's.
constexpr std::string_view kLocalhost = "\x08\x09localhost\x08\x03nfd"sv;
constexpr std::string_view kLocalhop = "\x08\x08localhop\x08\x03nfd"sv;

bool begins_with(wire::ByteView name, std::string_view prefix) {
    return name.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), name.begin());
}

}  // namespace

bool Node::State::is_for_management(wire::NameView name) const {
    return management != nullptr &&
           (begins_with(name.value(), kLocalhost) || begins_with(name.value(), kLocalhop));
}

void Node::State::on_management_interest(const IncomingInterest& interest) {
    INNET_LOG(kManagement, "face " << interest.face << ": " << interest.view.name().to_uri());
    const Production answer = management->answer(interest.face, interest.view, interest.now);
    switch (answer.kind) {
        case Production::Kind::kData:
            return answer_directly(interest, answer.data);
        case Production::Kind::kPending:
            if (insert_entry(interest) == nullptr) on_pit_full(interest);
            return;
        case Production::Kind::kAbsent:
            return refuse_directly(interest, wire::NackReason::kNoData);
        case Production::Kind::kNotMine:
            return refuse_directly(interest, wire::NackReason::kNoRoute);
    }
}

}  // namespace innet::forwarding
