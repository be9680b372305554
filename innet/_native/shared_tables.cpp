#include "innet/_native/shared_tables.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "innet/_native/name_argument.hpp"

namespace nb = nanobind;

namespace innet::bindings {
namespace {

/// The result of `ask`, or nothing when it raises.
template <typename T, typename Ask>
std::optional<T> answer_of(const char* what, Ask&& ask) {
    nb::gil_scoped_acquire acquire;
    try {
        return ask();
    } catch (nb::python_error& error) {
        error.discard_as_unraisable(what);
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
        nb::python_error().discard_as_unraisable(what);
    }
    return std::nullopt;
}

}  // namespace

PythonTables::PythonTables(nb::callable route, nb::callable rule)
    : route_(std::move(route)), rule_(std::move(rule)) {}

std::optional<forwarding::Route> PythonTables::route_to(simulation::NodeIndex node,
                                                        wire::NameView name) {
    using Answer = std::optional<forwarding::Route>;
    return answer_of<forwarding::Route>("a simulation's routes", [&]() -> Answer {
        const nb::object answer = route_(node, name.to_uri());
        if (answer.is_none()) {
            return std::nullopt;
        }
        const auto [prefix, face] = nb::cast<std::pair<std::string, FaceId>>(answer);
        return forwarding::Route{name_from_uri(prefix), face, 0};
    });
}

std::optional<reduction::Rule> PythonTables::rule_for(simulation::NodeIndex node,
                                                      wire::NameView group,
                                                      wire::ByteView interval) {
    using Answer = std::optional<reduction::Rule>;
    // A corrupted component may not be text; valid intervals have only these characters.
    if (!std::ranges::all_of(interval, [](std::uint8_t byte) { return byte < 0x80; })) {
        return std::nullopt;
    }
    return answer_of<reduction::Rule>("a simulation's rules", [&]() -> Answer {
        const std::string text(interval.begin(), interval.end());
        const wire::Name name = wire::Name().append(text);
        // Without the leading slash; the URI form escapes corrupted bytes.
        const nb::object answer = rule_(node, group.to_uri(), name.view().to_uri().substr(1));
        if (answer.is_none()) {
            return std::nullopt;
        }
        reduction::Rule rule;
        rule.group = wire::Name(group);
        rule.interval = name;
        rule.primary = false;
        for (const auto& [operand, hint] :
             nb::cast<std::vector<std::pair<std::string, std::string>>>(answer)) {
            rule.operands.push_back({name_from_uri("/" + operand), name_from_uri(hint)});
        }
        return rule;
    });
}

}  // namespace innet::bindings
