// What management is told: command Interests in all their shapes, and the elements inside them.

#include <array>
#include <string_view>
#include <vector>

#include "switch_emulator/management/command.hpp"
#include "switch_emulator/management/control_parameters.hpp"
#include "switch_emulator/management/face_query.hpp"
#include "switch_emulator/management/prefix_announcement.hpp"
#include "tests/fuzz/require.hpp"

namespace {

using innet::fuzz::require;
using innet::wire::ByteView;
namespace management = innet::management;

constexpr std::uint64_t kWallTimeMs = 1'800'000'000'000;

management::Bytes written(const management::ControlParameters& parameters) {
    management::Message message;
    parameters.write_to(message);
    return message.bytes();
}

/// What was read is written, and read again, as the same.
void read_parameters(ByteView element) {
    const auto parameters = management::ControlParameters::parse(element);
    if (!parameters) return;
    const auto bytes = written(*parameters);
    const auto again = management::ControlParameters::parse(bytes);
    require(again && again->present() == parameters->present() && written(*again) == bytes,
            "parameters are the same when they are written again");
}

void read_interest(ByteView packet) {
    const auto interest = innet::wire::InterestView::parse(packet);
    if (!interest) return;
    const auto address = management::Address::read(interest->name());
    if (!address) return;
    innet::security::Sha256 sha256;
    const auto command = management::read_command(*interest, *address, sha256);
    if (!command) return;
    read_parameters(command->payload);
    if (const auto& signature = command->signature) {
        std::size_t sum = signature->value.size();
        for (const ByteView part : signature->signed_parts) {
            for (const std::uint8_t byte : part) sum += byte;
        }
        require(sum != ~std::size_t{0}, "every byte that is signed can be read");
    }
}

/// An Interest for `/localhost/nfd/rib/register` and these components: the older commands.
void read_components(ByteView components) {
    auto name = innet::wire::Name::from_uri("/localhost/nfd/rib/register");
    std::vector<std::uint8_t> value(name->view().value().begin(), name->view().value().end());
    value.insert(value.end(), components.begin(), components.end());
    std::vector<std::uint8_t> packet(value.size() + 32);
    const auto whole = innet::wire::NameView::parse(value);
    if (!whole) return;
    innet::wire::InterestFields fields;
    fields.name = *whole;
    const std::size_t size = innet::wire::encode_interest(fields, packet);
    read_interest(ByteView(packet).first(size));
}

}  // namespace

/// The first byte chooses what the rest is.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    if (size == 0) return 0;
    const ByteView rest(bytes + 1, size - 1);
    switch (bytes[0] % 5) {
        case 0:
            read_parameters(rest);
            break;
        case 1:
            management::FaceQueryFilter::parse(rest);
            break;
        case 2:
            management::read_prefix_announcement(rest, kWallTimeMs);
            break;
        case 3:
            read_components(rest);
            break;
        default:
            read_interest(rest);
    }
    return 0;
}
