#pragma once
// What others ask a node to keep: a request is all in the name of the object that answers it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "transport/wire/name.hpp"

namespace innet {

/// `<requests>/<asker>/<nonce>/keep/<model-digest>/<layout>/<layers>/<hash>/<depth>/<source>`, and
/// up to three times `/<layers>/<hash>/<depth>`. `<requests>` is `<blocks>/request/<member>`, and a
/// block is called `<blocks>/<model-digest>/<layout>/<layers>/<hash>`. innet/kv/requests.py reads
/// the same and all other requests.
struct KeepRequest {
    struct Block {
        wire::Name name;
        std::uint64_t depth = 0;
    };

    std::string_view asker;   ///< a node's name, as `source`; both show the request's name
    std::string_view source;  ///< has all blocks
    std::vector<Block> blocks;

    /// Nothing when `name` is no such request below `requests`, whoever wrote it.
    static std::optional<KeepRequest> parse(wire::NameView name, const wire::Name& requests);

    static constexpr std::size_t kMaxBlocks = 4;
};

}  // namespace innet
