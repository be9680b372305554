// `Name`: an NDN name made once and used many times.

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <cstdint>
#include <random>
#include <string>
#include <utility>

#include "innet/_native/bindings.hpp"
#include "innet/_native/byte_arguments.hpp"
#include "innet/_native/name_argument.hpp"
#include "transport/wire/name_uri.hpp"

namespace nb = nanobind;

namespace innet::bindings {

wire::Name name_from_uri(std::string_view uri) {
    auto name = wire::Name::from_uri(uri);
    if (!name) {
        const std::string why = wire::uri_error(uri);
        throw nb::value_error(("not an NDN name: " + std::string(uri) + ": " + why).c_str());
    }
    return *name;
}

std::vector<wire::Name> names_from_uris(const std::vector<std::string_view>& uris) {
    std::vector<wire::Name> names;
    names.reserve(uris.size());
    for (const std::string_view uri : uris) names.push_back(name_from_uri(uri));
    return names;
}

void choose_name_hash_key() {
    std::random_device random;
    const auto draw = [&] { return std::uint64_t{random()} << 32U | std::uint64_t{random()}; };
    wire::set_name_hash_key({draw(), draw()});
}

namespace {

using Component = std::pair<std::uint32_t, nb::bytes>;

wire::Name name_from_value(const nb::bytes& value) {
    const auto view = wire::NameView::parse(view_of(value));
    if (!view) throw nb::value_error("malformed name");
    return wire::Name(*view);
}

Component component_of(const wire::Name& name, std::int64_t index) {
    const auto size = static_cast<std::int64_t>(name.view().size());
    if (index < 0) index += size;
    if (index < 0 || index >= size) throw nb::index_error("no such component");
    const wire::Element component = name.view().component(static_cast<std::size_t>(index));
    return {component.type, bytes_of(component.value)};
}

wire::Name appended(const wire::Name& name, std::uint32_t type, const nb::bytes& value) {
    wire::Name longer = name;
    longer.append(type, view_of(value));
    if (!wire::NameView::parse(longer.view().value())) {
        throw nb::value_error("such a component cannot follow in a name");
    }
    return longer;
}

wire::Name appended_number(const wire::Name& name, std::uint32_t type, std::uint64_t number) {
    wire::Name longer = name;
    longer.append_number(type, number);
    return longer;
}

void bind_parts(nb::class_<wire::Name>& name) {
    name.def_static("from_value", &name_from_value, nb::arg("value"),
                    "From the value of a Name element; ValueError when it is malformed.")
        .def(
            "value", [](const wire::Name& self) { return bytes_of(self.view().value()); },
            "Value of the Name element: the components, encoded.")
        .def("__getitem__", &component_of, nb::arg("index"),
             "Type and value of a component; negative indices count from the end.")
        .def(
            "prefix",
            [](const wire::Name& self, std::size_t components) {
                return wire::Name(self.view().prefix(components));
            },
            nb::arg("components"), "Its first components.")
        .def(
            "parent", [](const wire::Name& self) { return wire::Name(self.view().parent()); },
            "Without the last component.")
        .def("append", &appended, nb::arg("type"), nb::arg("value"),
             "A new name with one component more.")
        .def("append_number", &appended_number, nb::arg("type"), nb::arg("number"),
             "A new name with a NonNegativeInteger as one component more.")
        .def(
            "is_prefix_of",
            [](const wire::Name& self, const wire::Name& other) {
                return self.view().is_prefix_of(other.view());
            },
            nb::arg("other"))
        .def(
            "__lt__", [](const wire::Name& self, const wire::Name& other) { return self < other; },
            "NDN's canonical order.");
}

}  // namespace

void bind_names(nb::module_& module) {
    nb::class_<wire::Name> bound(module, "Name", "An NDN name.");
    bound
        .def(
            "__init__",
            [](wire::Name* self, std::string_view uri) {
                new (self) wire::Name(name_from_uri(uri));
            },
            nb::arg("uri"))
        .def("__str__", [](const wire::Name& name) { return name.view().to_uri(); })
        .def("__repr__",
             [](const wire::Name& name) { return "Name('" + name.view().to_uri() + "')"; })
        .def(
            "__eq__",
            [](const wire::Name& name, nb::object other) {
                const wire::Name* view = nullptr;
                return nb::try_cast(other, view) && view != nullptr && name == *view;
            },
            nb::arg("other").none())
        .def("__hash__", [](const wire::Name& name) { return name.view().hash(); })
        .def("__len__", [](const wire::Name& name) { return name.view().size(); });
    bind_parts(bound);
}

}  // namespace innet::bindings
