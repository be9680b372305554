// Names as people write them: in settings, on control sockets, in management commands.

#include <string_view>

#include "tests/fuzz/require.hpp"
#include "transport/wire/name.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    using innet::wire::Name;
    const std::string_view text(reinterpret_cast<const char*>(bytes), size);
    const auto name = Name::from_uri(text);
    if (!name) return 0;
    innet::fuzz::require(innet::wire::NameView::parse(name->view().value()).has_value(),
                         "what is made of a text is a name");
    const auto again = Name::from_uri(name->view().to_uri());
    innet::fuzz::require(again && *again == *name, "a name's text leads back to it");
    return 0;
}
