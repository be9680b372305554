#include "transport/object/object_publisher.hpp"

#include <algorithm>
#include <utility>

namespace innet {

namespace {

/// Bytes cut and hashed before packets have their turn again.
constexpr std::size_t kSliceBytes = 128 * 1024;

constexpr std::ptrdiff_t kMaxAsked = 1 << 16;

}  // namespace

void ObjectPublisher::register_prefix(const wire::Name& prefix, std::string label,
                                      Missing missing) {
    unregister_prefix(prefix);
    prefixes_.push_back({prefix, std::move(label), missing});
}

void ObjectPublisher::unregister_prefix(const wire::Name& prefix) {
    std::erase_if(prefixes_, [&](const Prefix& known) { return known.name == prefix; });
    std::erase_if(objects_, [&](const auto& entry) {
        return prefix.view().is_prefix_of(entry.second->name());
    });
    end_under(prefix, OperationStatus::kCancelled, "nothing is offered any more");
}

void ObjectPublisher::end_under(const wire::Name& prefix, OperationStatus status,
                                const std::string& detail) {
    std::erase_if(under_way_, [&](const UnderWay& one) {
        if (!prefix.view().is_prefix_of(one.object->name())) return false;
        completions_.push_back({one.id, status, detail});
        return true;
    });
}

const ObjectPublisher::Prefix* ObjectPublisher::prefix_of(wire::NameView name) const {
    const auto found = std::ranges::find_if(
        prefixes_, [&](const Prefix& prefix) { return prefix.name.view().is_prefix_of(name); });
    return found == prefixes_.end() ? nullptr : &*found;
}

std::optional<std::string> ObjectPublisher::refusal(const ObjectSpec& spec) const {
    const wire::NameView name = spec.name.view();
    if (!covers(name)) return name.to_uri() + " is under no prefix of this node's objects";
    const bool being_cut = std::ranges::any_of(
        under_way_, [&](const UnderWay& one) { return one.object->name() == name; });
    if (being_cut || objects_.contains(name.hash())) {
        return name.to_uri() + " is published already; a name stands for one value";
    }
    return std::nullopt;
}

void ObjectPublisher::publish(OperationId id, const ObjectSpec& spec,
                              std::unique_ptr<security::Signer> root_signer) {
    auto why = refusal(spec);
    const auto cut = ObjectPublication::Cut::of(spec, *root_signer, virtual_scale_);
    if (!why && !cut) {
        why = spec.name.view().to_uri() + " does not fit into packets of " +
              std::to_string(spec.max_packet_bytes) + " bytes: the name is too long for them, or " +
              std::to_string(spec.bytes.size()) + " bytes would need over " +
              std::to_string(kMaxSegments) + " segments";
    }
    if (why) {
        completions_.push_back({id, OperationStatus::kAborted, std::move(*why)});
        return;
    }
    under_way_.push_back({id, std::make_unique<ObjectPublication>(spec, *cut, virtual_scale_, pool_,
                                                                  std::move(root_signer))});
}

void ObjectPublisher::advance() {
    if (under_way_.empty()) return;
    switch (under_way_.front().object->advance(kSliceBytes)) {
        case ObjectPublication::Progress::kUnderWay:
            return;
        case ObjectPublication::Progress::kFailed:
            return end_first(OperationStatus::kAborted, "the key can sign no more");
        case ObjectPublication::Progress::kComplete:
            offer(std::move(under_way_.front().object));
            return end_first(OperationStatus::kDone, {});
    }
}

void ObjectPublisher::offer(std::unique_ptr<ObjectPublication> object) {
    forwarder_.put_data(RequesterId::kApplication, object->root(), false);  // for those who wait
    const wire::NameHash hash = object->name().hash();
    objects_.insert_or_assign(hash, std::move(object));
}

void ObjectPublisher::end_first(OperationStatus status, std::string detail) {
    completions_.push_back({under_way_.front().id, status, std::move(detail)});
    under_way_.pop_front();
}

void ObjectPublisher::withdraw(const wire::Name& object) {
    const auto found = objects_.find(object.view().hash());
    if (found != objects_.end() && found->second->name() == object.view()) objects_.erase(found);
}

bool ObjectPublisher::cancel(OperationId id) {
    const auto found = std::ranges::find(under_way_, id, &UnderWay::id);
    if (found == under_way_.end()) return false;
    under_way_.erase(found);
    completions_.push_back({id, OperationStatus::kCancelled, "cancelled"});
    return true;
}

void ObjectPublisher::abort(const wire::Name& prefix, const std::string& why) {
    end_under(prefix, OperationStatus::kAborted, why);
}

void ObjectPublisher::take_completions(std::vector<OperationCompletion>& into) {
    std::ranges::move(completions_, std::back_inserter(into));
    completions_.clear();
}

Production ObjectPublisher::produce(wire::NameView name) {
    const auto parsed = SegmentName::parse_full(name);
    const Prefix* prefix = prefix_of(name);
    if (!parsed || prefix == nullptr) return {};
    const bool wants_manifest = security::is_manifest_prefix(parsed->tensor);
    const wire::NameView object = wants_manifest ? parsed->tensor.parent() : parsed->tensor;
    const auto found = objects_.find(object.hash());
    if (found != objects_.end() && found->second->name() == object) {
        PacketRef packet = found->second->find(*parsed);
        if (!packet) return {};
        const bool is_root = wants_manifest && parsed->segment == 0;
        if (is_root && prefix->missing == Missing::kRefuse) remember_asked(object);
        ++segments_served_;
        return {Production::Kind::kData, std::move(packet), {}};
    }
    if (prefix->missing == Missing::kRefuse) return {Production::Kind::kAbsent, {}, {}};
    // Who asks for the root fetches the object; a full name is of an object that is gone.
    if (!wants_manifest || parsed->segment != 0 || !parsed->digest.empty()) return {};
    return {Production::Kind::kPending,
            {},
            {reinterpret_cast<const std::uint8_t*>(prefix->label.data()), prefix->label.size()}};
}

void ObjectPublisher::remember_asked(wire::NameView object) {
    if (std::ssize(asked_) == kMaxAsked)
        asked_.erase(asked_.begin(), asked_.begin() + kMaxAsked / 2);
    asked_.emplace_back(object);
}

std::uint64_t ObjectPublisher::retained_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& [hash, object] : objects_) bytes += object->retained_bytes();
    return bytes;
}

}  // namespace innet
