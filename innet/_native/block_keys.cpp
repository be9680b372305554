// Keys of a prompt's blocks in an index: a chain of hashes under the key of this process.

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "innet/_native/bindings.hpp"
#include "innet/_native/byte_arguments.hpp"
#include "transport/wire/name_hash.hpp"

namespace nb = nanobind;

namespace innet::bindings {

using nb::literals::operator""_a;

namespace {

void add(wire::NameHasher& hasher, std::uint64_t number) {
    hasher.add({reinterpret_cast<const std::uint8_t*>(&number), sizeof number});
}

std::uint64_t block_key(std::uint64_t parent, wire::ByteView tokens, std::uint64_t extra) {
    wire::NameHasher hasher;
    add(hasher, parent);
    if (extra != 0) add(hasher, extra);
    hasher.add(tokens);
    return hasher.hash();
}

/// A block's holders, and how many blocks in a row have the same.
using Run = std::pair<nb::int_, std::size_t>;

std::vector<Run> prefix_runs(std::uint64_t parent, const nb::bytes& tokens, std::size_t block_bytes,
                             std::uint64_t extra,
                             const nb::typed<nb::dict, nb::int_, nb::int_>& holders) {
    if (block_bytes == 0) throw nb::value_error("expected blocks of at least one byte");
    const wire::ByteView all = view_of(tokens);
    std::vector<Run> runs;
    for (std::size_t end = block_bytes; end <= all.size(); end += block_bytes) {
        parent = block_key(parent, all.subspan(end - block_bytes, block_bytes), extra);
        extra = 0;
        PyObject* found = PyDict_GetItemWithError(holders.ptr(), nb::int_(parent).ptr());
        if (found == nullptr) {
            if (PyErr_Occurred() != nullptr) throw nb::python_error();
            break;
        }
        const auto held = nb::borrow<nb::int_>(found);
        if (runs.empty() || !runs.back().first.equal(held)) runs.emplace_back(held, 0);
        ++runs.back().second;
    }
    return runs;
}

}  // namespace

void bind_block_keys(nb::module_& module) {
    module.def(
        "block_key",
        [](std::uint64_t parent, const nb::bytes& tokens, std::uint64_t extra) {
            return block_key(parent, view_of(tokens), extra);
        },
        "parent"_a, "tokens"_a, "extra"_a,
        "The key of a block: SipHash-1-3 of the key before it, of what else it depends on "
        "(`extra`, 0: nothing), and of its tokens. Keys mean nothing outside this process.");
    module.def("prefix_runs", &prefix_runs, "parent"_a, "tokens"_a, "block_bytes"_a, "extra"_a,
               "holders"_a,
               "The blocks of a prompt from the first on, as long as `holders` has their keys: "
               "each value, and how many blocks in a row have it. `extra` belongs to the first "
               "block.");
}

}  // namespace innet::bindings
