// Keys of a prompt's blocks in an index: a chain of hashes under the key of this process.

#include <nanobind/stl/vector.h>

#include <cstdint>
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

std::vector<std::uint64_t> block_keys(std::uint64_t parent, const nb::bytes& tokens,
                                      std::size_t block_bytes, std::uint64_t extra) {
    if (block_bytes == 0) throw nb::value_error("expected blocks of at least one byte");
    const wire::ByteView all = view_of(tokens);
    std::vector<std::uint64_t> keys;
    keys.reserve(all.size() / block_bytes);
    for (std::size_t end = block_bytes; end <= all.size(); end += block_bytes) {
        wire::NameHasher hasher;
        add(hasher, parent);
        if (extra != 0) add(hasher, extra);
        hasher.add(all.subspan(end - block_bytes, block_bytes));
        parent = hasher.hash();
        extra = 0;
        keys.push_back(parent);
    }
    return keys;
}

}  // namespace

void bind_block_keys(nb::module_& module) {
    module.def("block_keys", &block_keys, "parent"_a, "tokens"_a, "block_bytes"_a, "extra"_a,
               "The key of each full block of a prompt: SipHash-1-3 of the key before it, of what "
               "else the first block depends on (`extra`, 0: nothing), and of its tokens. Keys "
               "mean nothing outside this process.");
}

}  // namespace innet::bindings
