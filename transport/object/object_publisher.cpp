#include "transport/object/object_publisher.hpp"

#include <algorithm>
#include <utility>

namespace innet {

namespace {

/// Bytes cut and hashed before packets have their turn again.
constexpr std::size_t kSliceBytes = 256 * 1024;

std::string too_large(const ObjectSpec& spec) {
    return spec.name.view().to_uri() + " does not fit into packets of " +
           std::to_string(spec.max_packet_bytes) + " bytes: the name is too long for them, or " +
           std::to_string(spec.bytes.size()) + " bytes would need over " +
           std::to_string(kMaxSegments) + " segments";
}

/// The object that the packet is of.
wire::NameView object_of(const SegmentName& packet) {
    return security::is_manifest_prefix(packet.tensor) ? packet.tensor.parent() : packet.tensor;
}

/// True for the root manifest, which a fetch requests first, by name alone.
bool is_root(const SegmentName& packet) {
    return packet.segment == 0 && security::is_manifest_prefix(packet.tensor);
}

}  // namespace

void ObjectPublisher::register_prefix(const wire::Name& prefix, ObjectPrefix options) {
    unregister_prefix(prefix);
    prefixes_.put(prefix, std::move(options));
}

std::shared_ptr<security::SegmentTagger> ObjectPublisher::tagger_of(wire::NameView object) const {
    const ObjectPrefix* prefix = prefixes_.longest_of(object);
    return prefix == nullptr ? nullptr : prefix->tagger;
}

void ObjectPublisher::unregister_prefix(const wire::Name& prefix) {
    prefixes_.erase(prefix);
    drop_kept(prefix);
    std::erase_if(objects_, [&](const auto& entry) {
        if (!prefix.view().is_prefix_of(entry.second->name())) return false;
        retained_bytes_ -= entry.second->retained_bytes();
        return true;
    });
    end_under(prefix, OperationStatus::kCancelled, "nothing is offered any more");
    refuse(awaited_.take_under(prefix), wire::NackReason::kNoRoute);
}

void ObjectPublisher::end_under(const wire::Name& prefix, OperationStatus status,
                                const std::string& detail) {
    const auto concerned = [&](const Publishing& one) {
        return prefix.view().is_prefix_of(one.object->name());
    };
    for (auto one = std::ranges::find_if(publishing_, concerned); one != publishing_.end();
         one = std::ranges::find_if(publishing_, concerned)) {
        end(one, status, detail);
    }
}

PublishedObject* ObjectPublisher::find(wire::NameView object) const {
    const auto found = objects_.find(object.hash());
    const bool is_there = found != objects_.end() && found->second->name() == object;
    return is_there ? found->second.get() : nullptr;
}

std::optional<std::string> ObjectPublisher::refusal(wire::NameView object) const {
    if (prefixes_.longest_of(object) == nullptr) {
        return object.to_uri() + " is under no prefix of this node's objects";
    }
    const wire::NameHash hash = object.hash();
    const bool is_there = objects_.contains(hash) && !kept_.contains(hash);
    if (publishing_names_.contains(hash) || is_there) {
        return object.to_uri() + " is published already; a name stands for one value";
    }
    return std::nullopt;
}

void ObjectPublisher::publish(OperationId id, const ObjectSpec& spec,
                              std::shared_ptr<security::Signer> root_signer) {
    auto why = refusal(spec.name.view());
    if (!why) forget_kept(spec.name.view());
    const auto cut = ObjectCut::of(spec, *root_signer, virtual_scale_);
    if (!why && !cut) why = too_large(spec);
    if (why) {
        complete(id, OperationStatus::kAborted, std::move(*why));
        return;
    }
    start(id,
          std::make_unique<ObjectPublication>(spec, *cut, virtual_scale_, pool_, hasher_,
                                              std::move(root_signer), tagger_of(spec.name.view())));
}

void ObjectPublisher::publish_all(OperationId id, std::span<const ObjectSpec> specs,
                                  const std::shared_ptr<security::Signer>& root_signer) {
    groups_[id] = {.left = specs.size(), .completion = {.id = id, .detail = {}}};
    for (const ObjectSpec& spec : specs) publish(id, spec, root_signer);
}

void ObjectPublisher::complete(OperationId id, OperationStatus status, std::string detail) {
    const auto found = groups_.find(id);
    if (found == groups_.end()) {
        completions_.push_back({id, status, std::move(detail)});
        return;
    }
    OperationGroup& group = found->second;
    if (group.completion.status == OperationStatus::kDone) {
        group.completion.status = status;
        group.completion.detail = std::move(detail);
    }
    if (--group.left > 0) return;
    completions_.push_back(std::move(group.completion));
    groups_.erase(found);
}

void ObjectPublisher::publish_sealed(OperationId id, const SealedObjectSpec& spec,
                                     const security::Keyring& keyring) {
    if (auto why = refusal(spec.object.name.view())) {
        complete(id, OperationStatus::kAborted, std::move(*why));
        return;
    }
    forget_kept(spec.object.name.view());
    std::string why;
    const ObjectPrefix& prefix = *prefixes_.longest_of(spec.object.name.view());
    auto seal = ObjectSeal::verified(spec, keyring, prefix, pool_, why);
    if (!seal) {
        complete(id, OperationStatus::kUntrusted,
                 spec.object.name.view().to_uri() + ": " + std::move(why));
        return;
    }
    start(id, std::make_unique<ObjectPublication>(spec.object, std::move(*seal), virtual_scale_,
                                                  pool_, hasher_));
}

void ObjectPublisher::start(OperationId id, std::unique_ptr<ObjectPublication> object) {
    publishing_names_.insert(object->name().hash());
    publishing_.push_back({id, std::move(object)});
}

std::deque<ObjectPublisher::Publishing>::iterator ObjectPublisher::next_publication() {
    const auto first_short = std::ranges::find_if(
        publishing_, [](const Publishing& one) { return one.object->size_bytes() <= kSliceBytes; });
    short_was_last_ = !short_was_last_ && first_short != publishing_.end();
    return short_was_last_ ? first_short : publishing_.begin();
}

void ObjectPublisher::advance() {
    if (publishing_.empty()) return;
    slices_.clear();
    jobs_.clear();
    cut_next();
    hasher_.digest(jobs_);
    for (ObjectPublication* const object : slices_) finish_slice(object);
}

void ObjectPublisher::cut_next() {
    cut_slice(*next_publication()->object);
    for (const Publishing& other : publishing_) {
        if (security::lanes_are_full(jobs_)) return;
        const bool is_cut = other.object.get() == slices_.front();
        if (!is_cut && other.object->size_bytes() <= kSliceBytes) cut_slice(*other.object);
    }
}

void ObjectPublisher::cut_slice(ObjectPublication& object) {
    object.cut(kSliceBytes);
    slices_.push_back(&object);
    for (security::HashJob& job : object.to_hash()) jobs_.push_back(&job);
}

void ObjectPublisher::finish_slice(const ObjectPublication* object) {
    const auto next = std::ranges::find(publishing_, object,
                                        [](const Publishing& one) { return one.object.get(); });
    if (next == publishing_.end()) return;  // withdrawn because of another one's end
    switch (next->object->finish()) {
        case ObjectPublication::Progress::kUnderWay:
            return;
        case ObjectPublication::Progress::kFailed:
            if (next->object->is_sealed()) {
                return end(next, OperationStatus::kUntrusted,
                           next->object->name().to_uri() + " was signed with other bytes");
            }
            return end(next, OperationStatus::kAborted, "the key can sign no more");
        case ObjectPublication::Progress::kComplete:
            publishing_names_.erase(next->object->name().hash());
            offer(next->object->take());
            complete(next->id, OperationStatus::kDone, {});
            publishing_.erase(next);
    }
}

void ObjectPublisher::offer(std::unique_ptr<PublishedObject> object) {
    const bool takes_draft = awaited_.accepts_draft(object->name());
    PacketRef root = takes_draft ? object->root() : object->signed_root();
    if (root) forwarder_.put_data(RequesterId::kApplication, std::move(root), false);
    for (const wire::Name& packet : awaited_.take(object->name())) {
        const auto parsed = SegmentName::parse_full(packet.view());
        if (parsed && is_root(*parsed) && parsed->digest.empty()) continue;
        PacketRef data = parsed ? object->find(*parsed) : PacketRef();
        if (data) {
            forwarder_.put_data(RequesterId::kApplication, std::move(data), false);
        } else {
            forwarder_.nack(packet.view(), wire::NackReason::kNoData);
        }
    }
    retained_bytes_ += object->retained_bytes();
    const wire::NameHash hash = object->name().hash();
    objects_.insert_or_assign(hash, std::move(object));
}

void ObjectPublisher::end(std::deque<Publishing>::iterator ended, OperationStatus status,
                          std::string detail) {
    const std::unique_ptr<ObjectPublication> object = std::move(ended->object);
    complete(ended->id, status, std::move(detail));
    publishing_names_.erase(object->name().hash());
    publishing_.erase(ended);
    // Under a refusing prefix, Interests stay pending only because of this publication.
    const ObjectPrefix* prefix = prefixes_.longest_of(object->name());
    const bool refuses = prefix != nullptr && prefix->missing == MissingObject::kRefuse;
    if (refuses && !awaited_.expects(object->name())) {
        refuse(awaited_.take(object->name()), wire::NackReason::kNoData);
    }
}

void ObjectPublisher::refuse(const std::vector<wire::Name>& packets, wire::NackReason reason) {
    for (const wire::Name& packet : packets) forwarder_.nack(packet.view(), reason);
}

void ObjectPublisher::expect(const wire::Name& object) {
    if (find(object.view()) == nullptr) awaited_.expect(object);
}

void ObjectPublisher::drop(wire::NameView object) {
    const PublishedObject* published = find(object);
    if (published == nullptr) return;
    retained_bytes_ -= published->retained_bytes();
    objects_.erase(object.hash());
}

void ObjectPublisher::withdraw(const wire::Name& object) {
    const wire::NameHash hash = object.view().hash();
    if (kept_.contains(hash)) return;
    drop(object.view());
    if (publishing_names_.contains(hash)) {
        const auto cut = std::ranges::find_if(publishing_, [&](const Publishing& one) {
            return one.object->name() == object.view();
        });
        if (cut != publishing_.end()) end(cut, OperationStatus::kCancelled, "withdrawn");
    }
    refuse(awaited_.take(object.view()), wire::NackReason::kNoData);
}

bool ObjectPublisher::is_free(wire::NameView object) const {
    const wire::NameHash hash = object.hash();
    return !objects_.contains(hash) && !publishing_names_.contains(hash) &&
           !awaited_.expects(object);
}

bool ObjectPublisher::publish_short(const ObjectSpec& spec,
                                    std::shared_ptr<security::Signer> root_signer) {
    const auto cut = ObjectCut::of(spec, *root_signer, virtual_scale_);
    if (!cut || refusal(spec.name.view())) return false;
    ObjectPublication object(spec, *cut, virtual_scale_, pool_, hasher_, std::move(root_signer),
                             tagger_of(spec.name.view()));
    if (object.advance(kSliceBytes) != ObjectPublication::Progress::kComplete) return false;
    offer(object.take());
    return true;
}

bool ObjectPublisher::keep(const std::shared_ptr<KeptObject>& object, std::size_t max_packet_bytes,
                           const security::Keyring& keyring) {
    if (!is_free(object->name().view()) || refusal(object->name().view())) return false;
    const std::shared_ptr<ObjectMemory>& memory = object->memory();
    SealedObjectSpec spec{{object->name(), memory->bytes(), max_packet_bytes, nullptr, memory},
                          memory->root(),
                          memory->digests(),
                          memory->root_is_proven()};
    std::string why;
    const ObjectPrefix& prefix = *prefixes_.longest_of(object->name().view());
    auto seal = ObjectSeal::verified(spec, keyring, prefix, pool_, why);
    if (!seal) return false;
    ObjectPublication publication(spec.object, std::move(*seal), virtual_scale_, pool_, hasher_);
    // Its digests are known, or it is short.
    if (publication.advance(kSliceBytes) != ObjectPublication::Progress::kComplete) return false;
    offer(publication.take());
    kept_.insert_or_assign(object->name().view().hash(), object);
    return true;
}

void ObjectPublisher::adopt(const wire::Name& object) { kept_.erase(object.view().hash()); }

void ObjectPublisher::forget_kept(wire::NameView object) {
    const auto found = kept_.find(object.hash());
    if (found == kept_.end()) return;
    found->second->set_replaced();
    kept_.erase(found);
    drop(object);
}

void ObjectPublisher::drop_kept(const wire::Name& prefix) {
    for (auto entry = kept_.begin(); entry != kept_.end();) {
        const wire::Name& name = entry->second->name();
        if (!prefix.view().is_prefix_of(name.view())) {
            ++entry;
            continue;
        }
        entry->second->set_replaced();
        drop(name.view());
        entry = kept_.erase(entry);
    }
}

PacketRef ObjectPublisher::root_of(const wire::Name& object) const {
    const PublishedObject* published = find(object.view());
    return published == nullptr ? PacketRef() : published->root();
}

bool ObjectPublisher::cancel(OperationId id) {
    if (requested_.cancel(id)) return true;
    const auto next = [&] { return std::ranges::find(publishing_, id, &Publishing::id); };
    if (next() == publishing_.end()) return false;
    for (auto one = next(); one != publishing_.end(); one = next()) {
        end(one, OperationStatus::kCancelled, "cancelled");
    }
    return true;
}

void ObjectPublisher::abort(const wire::Name& prefix, const std::string& why) {
    end_under(prefix, OperationStatus::kAborted, why);
    if (prefix.view().empty()) requested_.abort(why);
}

void ObjectPublisher::take_completions(std::vector<OperationCompletion>& into) {
    requested_.take_completions(into);
    std::ranges::move(completions_, std::back_inserter(into));
    completions_.clear();
}

std::optional<Production> ObjectPublisher::produce(const ObjectInterest& interest) {
    const ObjectPrefix* prefix = prefixes_.longest_of(interest.name);
    if (prefix == nullptr) return std::nullopt;
    const auto packet = SegmentName::parse_full(interest.name);
    if (!packet) return Production{};
    const wire::NameView object = object_of(*packet);
    if (PublishedObject* published = find(object)) {
        PacketRef data = published->find(*packet, interest.accepts_draft);
        if (!data) return Production{};
        if (is_root(*packet) && prefix->missing == MissingObject::kRefuse) {
            requested_.add_served(object, interest.now);
        }
        ++segments_served_;
        return Production{Production::Kind::kData, std::move(data), {}};
    }
    if (!interest.is_for_here) return Production{};
    if (publishing_names_.contains(object.hash()) || awaited_.expects(object)) {
        return pending(*prefix);
    }
    if (prefix->missing == MissingObject::kRefuse) {
        return Production{Production::Kind::kAbsent, {}, {}};
    }
    // An Interest for the root starts a fetch; one with a digest names an object that is gone.
    const bool begins = is_root(*packet) && packet->digest.empty();
    if (!begins) return Production{};
    if (prefix->guard && !prefix->guard->admits(object, interest.now)) {
        return Production{Production::Kind::kAbsent, {}, {}};
    }
    return pending(*prefix);
}

bool ObjectPublisher::await(const ObjectInterest& interest) {
    const ObjectPrefix* prefix = prefixes_.longest_of(interest.name);
    if (prefix == nullptr) return false;
    const auto packet = SegmentName::parse_full(interest.name);
    if (!packet) return true;
    const wire::NameView object = object_of(*packet);
    const bool is_first = awaited_.wait(object, interest.name, interest.now, interest.until);
    if (is_root(*packet) && !interest.accepts_draft) awaited_.want_signature(object);
    if (!is_first || (prefix->guard && !prefix->guard->begins(object))) return true;
    const bool is_taken = request_handler_ != nullptr &&
                          request_handler_->handle_request(object, interest.attached_roots);
    if (!is_taken) requested_.add_awaited(object);
    return true;
}

bool ObjectPublisher::forget(wire::NameView name) {
    if (prefixes_.longest_of(name) == nullptr) return false;
    if (const auto packet = SegmentName::parse_full(name)) {
        awaited_.forget(object_of(*packet), name);
    }
    return true;
}

Production ObjectPublisher::pending(const ObjectPrefix& prefix) {
    return {Production::Kind::kPending,
            {},
            {reinterpret_cast<const std::uint8_t*>(prefix.label.data()), prefix.label.size()}};
}

}  // namespace innet
