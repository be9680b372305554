#include "transport/wire/name_hash.hpp"

namespace innet::wire {

namespace {

/// The process has one key, not each node: names and their hashes pass between all of its tables.
constinit SipWords start = SipWords::under({});  // NOLINT(cert-err58-cpp): made by the compiler

}  // namespace

void set_name_hash_key(const NameHashKey& key) { start = SipWords::under(key); }

SipWords sip_start() { return start; }

}  // namespace innet::wire
