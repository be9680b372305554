// `Name`: an NDN name made once and used many times.

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <cstdint>
#include <random>
#include <string>

#include "innet/_native/bindings.hpp"
#include "innet/_native/name_argument.hpp"

namespace nb = nanobind;

namespace innet::bindings {

wire::Name name_from_uri(std::string_view uri) {
    auto name = wire::Name::from_uri(uri);
    if (!name) {
        throw nb::value_error(("not an NDN name: " + std::string(uri)).c_str());
    }
    return *name;
}

void choose_name_hash_key() {
    std::random_device random;
    const auto draw = [&] { return std::uint64_t{random()} << 32U | std::uint64_t{random()}; };
    wire::set_name_hash_key({draw(), draw(), draw()});
}

void bind_names(nb::module_& module) {
    nb::class_<wire::Name>(module, "Name", "An NDN name.")
        .def(
            "__init__",
            [](wire::Name* self, std::string_view uri) {
                new (self) wire::Name(name_from_uri(uri));
            },
            nb::arg("uri"))
        .def("__str__", [](const wire::Name& name) { return name.view().to_uri(); })
        .def("__repr__",
             [](const wire::Name& name) { return "Name('" + name.view().to_uri() + "')"; })
        .def("__eq__",
             [](const wire::Name& name, nb::object other) {
                 const wire::Name* view = nullptr;
                 return nb::try_cast(other, view) && view != nullptr && name == *view;
             })
        .def("__hash__", [](const wire::Name& name) { return name.view().hash(); })
        .def("__len__", [](const wire::Name& name) { return name.view().size(); });
}

}  // namespace innet::bindings
