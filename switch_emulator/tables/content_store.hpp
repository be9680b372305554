#pragma once
// Content store: caches verified Data, Data requested by digest, and Data that this node cannot
// verify, bounded in bytes of real memory: of packets and of all nodes of the tree.

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "switch_emulator/jobs/weighted_shares.hpp"
#include "switch_emulator/tables/eviction_policy.hpp"
#include "switch_emulator/tables/hash_chains.hpp"
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
/// The bytes are guaranteed to the jobs by weight. A job may borrow what others leave unused until
/// they need it; the job that borrowed most evicts first, by its own policy. So no job can evict
/// what another keeps within its guarantee, and unverified Data, which have no guarantee, evict no
/// job's Data. A node of the tree counts for a job that has Data at it or below it.
///
/// Data whose name has more than `NamePrefixes::kMaxPrefixComponents` components are not kept, nor
/// Data for whose name a bucket has no room.
class ContentStore {
  public:
    /// `capacity_bytes` = 0 keeps nothing.
    ContentStore(std::size_t capacity_bytes, PolicyMaker make_policy, PacketPool& pool);
    ~ContentStore();
    ContentStore(const ContentStore&) = delete;
    ContentStore& operator=(const ContentStore&) = delete;

    /// Which Data may answer an Interest.
    enum class Answers : std::uint8_t { kVerified, kAll };

    struct Found {
        const PacketRef* packet = nullptr;  ///< null: nothing answers the Interest
        /// False: only the requester can tell whether the Data are the producer's.
        bool is_verified = true;
    };

    /// The packet that answers the Interest. `interest_name` is the Interest's name. Valid until
    /// the next insertion.
    Found find(const wire::InterestView& interest, const NamePrefixes& interest_name, TimePoint now,
               Answers answers = Answers::kVerified);

    /// Keeps `packet`, which `data` shows. A slice of a much larger buffer is copied, so that it
    /// does not keep the whole buffer alive.
    void insert(const wire::DataView& data, const NamePrefixes& name, const PacketRef& packet,
                jobs::JobId job, TimePoint now);
    /// The same for Data that nothing but its implicit digest `digest` vouches for: it answers only
    /// Interests that name this digest, and takes no verified Data's place.
    void insert_by_digest(const wire::DataView& data, const NamePrefixes& name,
                          const security::Sha256Digest& digest, const PacketRef& packet,
                          jobs::JobId job, TimePoint now);

    /// Inserts Data whose key is unknown here: it answers requesters that verify for themselves
    /// (`Answers::kAll`) and accept stale Data, and never replaces verified Data.
    void insert_unverified(const wire::DataView& data, const NamePrefixes& name,
                           const PacketRef& packet, TimePoint now);

    /// Forgets everything; how many entries that were. They do not count as evictions.
    std::size_t clear();
    /// Forgets what is named at or below `prefix`, likewise, and no more than `limit` entries.
    /// Takes time for what it forgets alone.
    std::size_t drop_below(wire::NameView prefix,
                           std::size_t limit = std::numeric_limits<std::size_t>::max());

    /// Another capacity: what no longer fits is evicted.
    void set_capacity(std::size_t capacity_bytes);
    /// Whether Data are kept, and whether what is kept answers. Both at the start.
    void set_use(bool admits, bool serves);

    /// Adds a job, or changes its weight.
    void set_weight(jobs::JobId job, std::uint32_t weight);
    /// Removes a job: drops all its Data.
    void remove_job(jobs::JobId job);
    /// In bytes.
    const jobs::WeightedShares& shares() const { return shares_; }
    std::size_t size_bytes() const { return shares_.used(); }
    std::size_t unverified_bytes() const { return shares_.used(jobs::kUnguaranteedShare); }
    std::size_t entries() const { return entries_; }
    /// The most nodes that a look-up of one name may have to compare.
    std::size_t longest_chain() const { return chains_.longest_chain(); }
    std::uint64_t insertions() const { return insertions_; }
    std::uint64_t evictions() const { return evictions_; }

  private:
    /// How much vouches for a packet; none takes the place of one with more.
    enum class Standing : std::uint8_t { kNamedByDigest, kUnverified, kVerified };

    struct Node : CacheItem {
        PacketRef packet;                ///< empty in an inner node
        jobs::JobId job = jobs::kNoJob;  ///< the share that the node counts for
        wire::NameView name;             ///< of `packet`
        std::size_t name_size = 0;       ///< bytes of the prefix that this node stands for
        TimePoint fresh_until;
        Standing standing = Standing::kVerified;
        bool digest_known = false;
        security::Sha256Digest digest{};  ///< of `packet`; kNamedByDigest: answers only this
        Node* parent = nullptr;
        Node* first_child = nullptr;
        Node* next_sibling = nullptr;
        Node* previous_sibling = nullptr;
        Node* next_in_bucket = nullptr;
    };

    /// With its places in the table, which has at most two for each node.
    static constexpr std::size_t kNodeBytes = sizeof(Node) + 2 * sizeof(Node*);

    /// What an Interest without a digest demands of an answer.
    struct Demand {
        bool must_be_fresh;
        Answers answers;
        TimePoint now;
    };

    /// The packet's new place; null when it is not kept.
    Node* keep(const wire::DataView& data, const NamePrefixes& name, Standing standing,
               const PacketRef& packet, jobs::JobId share, TimePoint now);
    Node* find_node(wire::NameHash hash, wire::NameView name) const;
    Node* find_below(Node& top, const Demand& demand) const;
    static bool answers_by_name(const Node& node, const Demand& demand);
    const PacketRef* find_by_digest(wire::NameView name);
    static void set_digest(Node& node, const security::Sha256Digest& digest);
    /// The node of a name; new nodes count for `share`. Null when there is no room in a bucket.
    Node* make_path(const NamePrefixes& name, jobs::JobId share);
    Node& add_child(Node& parent, wire::NameHash hash, std::size_t name_size, jobs::JobId share);
    void remove_packet(Node& node);
    /// Removes the nodes that no Data is at or below, from `leaf` up.
    void remove_branch(Node& leaf);
    void move_to(Node& node, jobs::JobId share);
    /// Takes so many bytes for `share`. False when all that could be dropped for it is not its to
    /// push out.
    bool take_room(jobs::JobId share, std::size_t size_bytes);
    /// False when there is nothing to evict.
    bool evict_one();
    std::size_t drop_all_of(jobs::JobId job);
    void resize_policies();
    EvictionPolicy& policy_of(const Node& node) { return *policies_[node.job]; }

    jobs::WeightedShares shares_;  ///< in bytes
    PolicyMaker make_policy_;
    std::array<std::unique_ptr<EvictionPolicy>, jobs::kMaxShares> policies_;
    PacketPool& pool_;
    security::Sha256 sha256_;
    Slab<Node> nodes_;
    Node root_;
    HashChains<Node, &CacheItem::hash> chains_;
    std::size_t entries_ = 0;
    std::uint64_t insertions_ = 0;
    std::uint64_t evictions_ = 0;
    bool admits_ = true;
    bool serves_ = true;
};

}  // namespace innet::tables
