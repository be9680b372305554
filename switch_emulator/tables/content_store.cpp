#include "switch_emulator/tables/content_store.hpp"

#include <algorithm>

#include "switch_emulator/tables/compact.hpp"
#include "transport/security/manifest.hpp"

namespace innet::tables {

namespace {

constexpr std::size_t kInitialBuckets = 1024;

// Nodes looked at for one Interest with CanBePrefix and MustBeFresh: past that many stale ones the
// Interest is forwarded as if nothing were here, so that no Interest costs more than a bounded
// time.
constexpr int kMaxVisitedNodes = 64;

std::size_t packet_charge(const PacketRef& packet) {
    return packet.pinned_bytes() + packet.virtual_bytes() + sizeof(detail::PacketBlock);
}

}  // namespace

ContentStore::ContentStore(std::size_t capacity_bytes, PolicyMaker make_policy, PacketPool& pool)
    : shares_(capacity_bytes, capacity_bytes),
      make_policy_(std::move(make_policy)),
      pool_(pool),
      chains_(capacity_bytes == 0 ? 1 : kInitialBuckets) {
    policies_[jobs::kNoJob] = make_policy_(capacity_bytes);
    policies_[jobs::kUnguaranteedShare] = make_policy_(capacity_bytes);
}

ContentStore::~ContentStore() = default;

ContentStore::Found ContentStore::find(const wire::InterestView& interest,
                                       const NamePrefixes& interest_name, TimePoint now,
                                       Answers answers) {
    if (entries_ == 0 || !serves_) return {};
    if (interest_name.last_type() == wire::kImplicitSha256Digest) {
        return {find_by_digest(interest_name.name())};
    }
    Node* node = find_node(interest_name.hash(), interest_name.name());
    if (node == nullptr) return {};
    const Demand demand{interest.must_be_fresh(), answers, now};
    if (!answers_by_name(*node, demand)) {
        node = interest.can_be_prefix() ? find_below(*node, demand) : nullptr;
    }
    if (node == nullptr) return {};
    policy_of(*node).on_hit(*node);
    return {&node->packet, node->standing == Standing::kVerified};
}

const PacketRef* ContentStore::find_by_digest(wire::NameView name) {
    const wire::Element last = name.last_component();
    Node* node = find_node(name.parent().hash(), name.parent());
    if (node == nullptr || !node->packet) return nullptr;
    // Keeps the digest: requests for a digest that no packet has cost one hash per packet.
    if (!node->digest_known) set_digest(*node, sha256_.digest(node->packet.bytes()));
    if (!std::ranges::equal(node->digest, last.value)) return nullptr;
    policy_of(*node).on_hit(*node);
    return &node->packet;
}

ContentStore::Node* ContentStore::find_node(wire::NameHash hash, wire::NameView name) const {
    for (Node* node = chains_.first(hash); node != nullptr; node = node->next_in_bucket) {
        if (node->hash != hash || node->name_size != name.value().size()) continue;
        // An inner node has no bytes of its own: any Data below begins with its name.
        const Node* leaf = node;
        while (!leaf->packet) leaf = leaf->first_child;
        if (std::ranges::equal(leaf->name.value().first(node->name_size), name.value()))
            return node;
    }
    return nullptr;
}

// Pre-order walk without a stack: the tree's links lead back up.
ContentStore::Node* ContentStore::find_below(Node& top, const Demand& demand) const {
    Node* node = &top;
    for (int visited = 0; visited < kMaxVisitedNodes; ++visited) {
        if (answers_by_name(*node, demand)) return node;
        if (node->first_child != nullptr) {
            node = node->first_child;
            continue;
        }
        while (node != &top && node->next_sibling == nullptr) node = node->parent;
        if (node == &top) return nullptr;
        node = node->next_sibling;
    }
    return nullptr;
}

bool ContentStore::answers_by_name(const Node& node, const Demand& demand) {
    if (!node.packet || node.standing == Standing::kNamedByDigest) return false;
    if (node.standing == Standing::kUnverified && demand.answers == Answers::kVerified)
        return false;
    return !demand.must_be_fresh || node.fresh_until > demand.now;
}

void ContentStore::insert(const wire::DataView& data, const NamePrefixes& name,
                          const PacketRef& packet, jobs::JobId job, TimePoint now) {
    keep(data, name, Standing::kVerified, packet, job, now);
}

void ContentStore::insert_by_digest(const wire::DataView& data, const NamePrefixes& name,
                                    const security::Sha256Digest& digest, const PacketRef& packet,
                                    jobs::JobId job, TimePoint now) {
    Node* node = keep(data, name, Standing::kNamedByDigest, packet, job, now);
    if (node != nullptr) set_digest(*node, digest);
}

void ContentStore::set_digest(Node& node, const security::Sha256Digest& digest) {
    node.digest = digest;
    node.digest_known = !node.packet.mac_due();  // the MAC will change it
}

void ContentStore::insert_unverified(const wire::DataView& data, const NamePrefixes& name,
                                     const PacketRef& packet, TimePoint now) {
    keep(data, name, Standing::kUnverified, packet, jobs::kUnguaranteedShare, now);
}

ContentStore::Node* ContentStore::keep(const wire::DataView& data, const NamePrefixes& name,
                                       Standing standing, const PacketRef& packet,
                                       jobs::JobId share, TimePoint now) {
    if (!admits_ || shares_.capacity() == 0 || !name.covers_whole_name() || name.depth() == 0) {
        return nullptr;
    }
    PacketRef kept = compact(packet, pool_);
    const std::size_t charge = packet_charge(kept);
    if (charge + kNodeBytes > shares_.capacity()) return nullptr;
    if (Node* known = find_node(name.hash(), name.name()); known != nullptr && known->packet) {
        if (standing < known->standing) return nullptr;
        policy_of(*known).on_remove(*known);
        remove_packet(*known);
    }
    Node* made = make_path(name, share);
    if (made == nullptr) return nullptr;
    Node& node = *made;
    move_to(node, share);
    const auto name_offset =
        static_cast<std::size_t>(data.name().value().data() - packet.bytes().data());
    // An eviction below removes no node that has a packet.
    node.packet = std::move(kept);
    node.name = wire::NameView::trusted(
        node.packet.bytes().subspan(name_offset, name.name().value().size()));
    if (!take_room(share, charge)) {
        node.packet = PacketRef();
        remove_branch(node);
        return nullptr;
    }
    // A requester with MustBeFresh may have rejected this packet: the producer must send it again,
    // whatever freshness the packet claims.
    const bool may_be_fresh =
        standing == Standing::kVerified && !security::is_root_manifest(name.name());
    node.fresh_until = may_be_fresh ? now + data.freshness() : now;
    node.standing = standing;
    node.size_bytes = charge;
    ++entries_;
    ++insertions_;
    policy_of(node).on_insert(node);
    return &node;
}

bool ContentStore::take_room(jobs::JobId share, std::size_t size_bytes) {
    shares_.take(share, size_bytes);
    while (shares_.used() > shares_.capacity()) {
        if (!evict_one()) {
            shares_.give(share, size_bytes);
            return false;
        }
    }
    return true;
}

bool ContentStore::evict_one() {
    // The store is over its capacity, so some job is over its guarantee.
    CacheItem* victim = policies_[shares_.furthest_over()]->take_victim();
    if (victim == nullptr) return false;
    remove_packet(static_cast<Node&>(*victim));
    ++evictions_;
    return true;
}

void ContentStore::set_capacity(std::size_t capacity_bytes) {
    shares_.set_capacity(capacity_bytes, capacity_bytes);
    resize_policies();
    while (shares_.used() > capacity_bytes && evict_one()) {
    }
}

void ContentStore::set_use(bool admits, bool serves) {
    admits_ = admits;
    serves_ = serves;
}

std::size_t ContentStore::clear() {
    std::size_t dropped = 0;
    for (jobs::JobId share = 0; share < policies_.size(); ++share) dropped += drop_all_of(share);
    return dropped;
}

std::size_t ContentStore::drop_below(wire::NameView prefix, std::size_t limit) {
    const wire::NameHash hash = prefix.hash();
    std::size_t dropped = 0;
    // Dropping the last Data removes the branch and its root node.
    while (entries_ != 0 && dropped < limit) {
        Node* node = prefix.empty() ? &root_ : find_node(hash, prefix);
        if (node == nullptr) break;
        while (!node->packet) node = node->first_child;
        policy_of(*node).on_remove(*node);
        remove_packet(*node);
        ++dropped;
    }
    return dropped;
}

std::size_t ContentStore::drop_all_of(jobs::JobId job) {
    std::size_t dropped = 0;
    if (policies_[job] == nullptr) return dropped;
    while (CacheItem* item = policies_[job]->take_victim()) {
        remove_packet(static_cast<Node&>(*item));
        ++dropped;
    }
    return dropped;
}

void ContentStore::set_weight(jobs::JobId job, std::uint32_t weight) {
    shares_.set_weight(job, weight);
    if (policies_[job] == nullptr) policies_[job] = make_policy_(shares_.guaranteed(job));
    resize_policies();
}

void ContentStore::remove_job(jobs::JobId job) {
    drop_all_of(job);
    policies_[job].reset();
    shares_.set_weight(job, 0);
    resize_policies();
}

void ContentStore::resize_policies() {
    for (jobs::JobId job = 0; job < jobs::kMaxJobIds; ++job) {
        if (policies_[job] != nullptr) policies_[job]->resize(shares_.guaranteed(job));
    }
}

ContentStore::Node* ContentStore::make_path(const NamePrefixes& name, jobs::JobId share) {
    std::size_t depth = name.depth();
    Node* node = nullptr;
    while (depth > 0 && (node = find_node(name.hash(depth), name.prefix(depth))) == nullptr)
        --depth;
    if (node == nullptr) node = &root_;
    while (depth < name.depth()) {
        const wire::NameHash hash = name.hash(++depth);
        if (!chains_.has_room(hash)) {
            remove_branch(*node);
            return nullptr;
        }
        node = &add_child(*node, hash, name.prefix(depth).value().size(), share);
    }
    return node;
}

ContentStore::Node& ContentStore::add_child(Node& parent, wire::NameHash hash,
                                            std::size_t name_size, jobs::JobId share) {
    Node& node = nodes_.take();
    node = Node{};
    shares_.take(share, kNodeBytes);
    node.job = share;
    node.hash = hash;
    node.name_size = name_size;
    node.parent = &parent;
    node.next_sibling = parent.first_child;
    if (parent.first_child != nullptr) parent.first_child->previous_sibling = &node;
    parent.first_child = &node;
    chains_.insert(node);
    return node;
}

void ContentStore::remove_packet(Node& node) {
    shares_.give(node.job, node.size_bytes);
    --entries_;
    node.packet = PacketRef();
    node.standing = Standing::kVerified;
    node.digest_known = false;
    node.size_bytes = 0;
    remove_branch(node);
}

// An inner node lives as long as there is Data below it.
void ContentStore::remove_branch(Node& leaf) {
    const jobs::JobId share = leaf.job;
    Node* node = &leaf;
    while (node != &root_ && !node->packet && node->first_child == nullptr) {
        Node* parent = node->parent;
        (node->previous_sibling != nullptr ? node->previous_sibling->next_sibling
                                           : parent->first_child) = node->next_sibling;
        if (node->next_sibling != nullptr) {
            node->next_sibling->previous_sibling = node->previous_sibling;
        }
        chains_.erase(*node);
        shares_.give(node->job, kNodeBytes);
        nodes_.give(*node);
        node = parent;
    }
    // The share may have no Data below these any longer; that of their first child has.
    for (; node != &root_; node = node->parent) {
        if (node->job == share && !node->packet) move_to(*node, node->first_child->job);
    }
}

void ContentStore::move_to(Node& node, jobs::JobId share) {
    if (node.job == share) return;
    shares_.give(node.job, kNodeBytes);
    shares_.take(share, kNodeBytes);
    node.job = share;
}

}  // namespace innet::tables
