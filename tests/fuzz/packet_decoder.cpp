// Whatever bytes come from a link: link headers, Interests, Data and their names.

#include "tests/fuzz/require.hpp"
#include "tests/native/support/packet_properties.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    const innet::wire::ByteView packet(bytes, size);
    const char* violated = innet::test::PacketProperties::violated_by(packet);
    innet::fuzz::require(violated == nullptr, violated);
    if (const auto link = innet::wire::LpView::parse(packet)) {
        violated = innet::test::PacketProperties::violated_by(link->payload());
        innet::fuzz::require(violated == nullptr, violated);
    }
    return 0;
}
