#pragma once
// Content store: verified Data, and Data asked for by digest, kept for the next asker, bounded in
// bytes of real memory.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "switch_emulator/tables/eviction_policy.hpp"
#include "switch_emulator/tables/name_prefixes.hpp"
#include "switch_emulator/tables/slab.hpp"
#include "transport/buffer/packet_ref.hpp"
#include "transport/security/sha256.hpp"
#include "transport/time.hpp"
#include "transport/wire/data.hpp"
#include "transport/wire/interest.hpp"

namespace innet::tables {

/// A tree of names over a hash table of its nodes: exact look-ups cost one probe, and an Interest
/// with CanBePrefix walks down from its own node to any Data below.
///
/// Data whose name has more than `NamePrefixes::kMaxPrefixComponents` components are not kept.
class ContentStore {
  public:
    /// `capacity_bytes` = 0 keeps nothing.
    ContentStore(std::size_t capacity_bytes, std::unique_ptr<EvictionPolicy> policy,
                 PacketPool& pool);
    ~ContentStore();
    ContentStore(const ContentStore&) = delete;
    ContentStore& operator=(const ContentStore&) = delete;

    /// The packet that answers the Interest, or null. `interest_name` is the Interest's name. Valid
    /// until the next insertion.
    const PacketRef* find(const wire::InterestView& interest, const NamePrefixes& interest_name,
                          TimePoint now);

    /// Keeps `packet`, which `data` shows. A slice of a much larger buffer is copied, so that it
    /// does not keep the whole buffer alive.
    void insert(const wire::DataView& data, const NamePrefixes& name, const PacketRef& packet,
                TimePoint now);
    /// The same for Data that nothing but its implicit digest `digest` vouches for: it answers only
    /// Interests that name this digest, and takes no verified Data's place.
    void insert_by_digest(const wire::DataView& data, const NamePrefixes& name,
                          const security::Sha256Digest& digest, const PacketRef& packet,
                          TimePoint now);

    /// Forgets everything; how many entries that were. They do not count as evictions.
    std::size_t clear();

    std::size_t size_bytes() const { return size_bytes_; }
    std::size_t entries() const { return entries_; }
    std::uint64_t insertions() const { return insertions_; }
    std::uint64_t evictions() const { return evictions_; }

  private:
    struct Node : CacheItem {
        PacketRef packet;           ///< empty in an inner node
        wire::NameView name;        ///< of `packet`
        std::size_t name_size = 0;  ///< bytes of the prefix that this node stands for
        TimePoint fresh_until;
        /// Set: `packet` answers only who asks for this digest.
        std::optional<security::Sha256Digest> only_for;
        Node* parent = nullptr;
        Node* first_child = nullptr;
        Node* next_sibling = nullptr;
        Node* previous_sibling = nullptr;
        Node* next_in_bucket = nullptr;
    };

    void keep(const wire::DataView& data, const NamePrefixes& name,
              const std::optional<security::Sha256Digest>& only_for, const PacketRef& packet,
              TimePoint now);
    Node* find_node(wire::NameHash hash, wire::NameView name) const;
    Node* find_below(Node& top, bool must_be_fresh, TimePoint now) const;
    static bool answers_by_name(const Node& node, bool must_be_fresh, TimePoint now);
    const PacketRef* find_by_digest(wire::NameView name);
    Node& make_path(const NamePrefixes& name);
    Node& add_child(Node& parent, wire::NameHash hash, std::size_t name_size);
    void remove_packet(Node& node);
    void remove_branch(Node& leaf);
    void make_room(std::size_t size_bytes);
    void grow_buckets();
    Node*& bucket(wire::NameHash hash) { return buckets_[index(hash)]; }
    std::size_t index(wire::NameHash hash) const {
        return static_cast<std::size_t>(hash ^ (hash >> 32)) & (buckets_.size() - 1);
    }

    std::size_t capacity_bytes_;
    std::unique_ptr<EvictionPolicy> policy_;
    PacketPool& pool_;
    security::Sha256 sha256_;
    Slab<Node> nodes_;
    Node root_;
    std::vector<Node*> buckets_;
    std::size_t node_count_ = 0;
    std::size_t size_bytes_ = 0;
    std::size_t entries_ = 0;
    std::uint64_t insertions_ = 0;
    std::uint64_t evictions_ = 0;
};

}  // namespace innet::tables
