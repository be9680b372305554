#pragma once
// A request to keep objects, encoded in the name of the object that answers it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "transport/wire/name.hpp"

namespace innet {

/// `<requests>/<requester>/<nonce>/keep/<model-digest>/<layout>/<layers>/<hash>/<depth>/<source>`,
/// and up to fifteen times `/<layers>/<hash>/<depth>`. `<requests>` is `<blocks>/request/<member>`,
/// and a block is called `<blocks>/<model-digest>/<layout>/<layers>/<hash>`.
/// innet/kv/pool/requests.py parses all requests.
struct KeepRequest {
    struct Block {
        wire::Name name;
        std::uint64_t depth = 0;
    };

    std::string_view requester;  ///< a node's name; views into the request's name, like `source`
    std::string_view source;     ///< node that has all blocks
    std::vector<Block> blocks;

    /// Parses an untrusted name; nothing when it is not a keep request below `requests`.
    static std::optional<KeepRequest> parse(wire::NameView name, const wire::Name& requests);

    static constexpr std::size_t kMaxBlocks = 16;
};

}  // namespace innet
