#include "transport/object/object_keeper.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "transport/object/attached_roots.hpp"
#include "transport/security/manifest.hpp"

namespace innet {

namespace {

/// Maximum pending requests; further ones are delegated.
constexpr std::size_t kMaxPendingRequests = 4096;
/// Maximum settled requests that are remembered; beyond it, the earliest are forgotten
/// early.
constexpr std::size_t kMaxSettled = 4096;
/// Maximum unacknowledged objects; for small objects the bookkeeping outweighs the bytes.
constexpr std::size_t kMaxUnacknowledged = 4096;
/// Expired answers are withdrawn in batches, at most this late.
constexpr Duration kForgetDelay = std::chrono::milliseconds(100);

wire::Name hint_of(std::string_view node) {
    wire::Name hint;
    return hint.append(std::string_view("n")).append(node);
}

std::string_view node_of(const wire::Name& requests) {
    const wire::ByteView node = requests.view().last_component().value;
    return {reinterpret_cast<const char*>(node.data()), node.size()};
}

bool names_twice(const std::vector<KeepRequest::Block>& blocks) {
    for (auto one = blocks.begin(); one != blocks.end(); ++one) {
        const auto is_same = [&](const KeepRequest::Block& other) {
            return other.name == one->name;
        };
        if (std::any_of(one + 1, blocks.end(), is_same)) return true;
    }
    return false;
}

}  // namespace

ObjectKeeper::ObjectKeeper(KeepOptions options, ObjectPublisher& objects,
                           const security::Keyring& keyring, KeeperFetches& fetches)
    : options_(std::move(options)),
      objects_(objects),
      keyring_(keyring),
      fetches_(fetches),
      budget_(std::make_shared<MemoryBudget>(options_.budget_bytes)),
      answer_(std::make_shared<const std::vector<std::uint8_t>>(std::move(options_.answer))) {}

bool ObjectKeeper::take(wire::NameView name, wire::ByteView attached_roots) {
    const wire::NameHash hash = name.hash();
    if (const auto known = pending_requests_.find(hash); known != pending_requests_.end()) {
        return known->second.name.view() == name;
    }
    const bool is_busy =
        pending_requests_.size() >= kMaxPendingRequests || unacknowledged_ >= kMaxUnacknowledged;
    if (is_busy || budget_->is_full() || delegated_.contains(hash) || !objects_.is_free(name)) {
        return false;
    }
    const auto request = KeepRequest::parse(name, options_.requests);
    if (!request || !can_have_all(*request)) return false;
    const auto tagger = objects_.tagger_of(name);
    const auto roots =
        tagger ? read_attached_roots(name, attached_roots, *tagger) : std::vector<wire::DataView>();
    PendingRequest& waiting = pending_requests_[hash];
    waiting.name = wire::Name(name);
    waiting.requester = request->requester;
    for (const KeepRequest::Block& block : request->blocks) {
        waiting.objects.push_back(block.name.view().hash());
        subscribe(block, request->source, hash, roots);
    }
    waiting.missing = waiting.objects.size();
    waiting.outcomes.resize(waiting.missing);
    begin_fetches();
    return true;
}

bool ObjectKeeper::can_have_all(const KeepRequest& request) const {
    if (request.source == node_of(options_.requests) || names_twice(request.blocks)) return false;
    return std::ranges::all_of(request.blocks, [this](const KeepRequest::Block& block) {
        const auto pending = pending_objects_.find(block.name.view().hash());
        return pending == pending_objects_.end() ? objects_.is_free(block.name.view())
                                                 : pending->second.object->name() == block.name;
    });
}

void ObjectKeeper::subscribe(const KeepRequest::Block& block, std::string_view source,
                             wire::NameHash by, std::span<const wire::DataView> roots) {
    const wire::NameHash hash = block.name.view().hash();
    PendingObject& pending = pending_objects_[hash];
    if (!pending.object) {
        pending.object = std::make_shared<KeptObject>(block.name, block.depth, budget_);
        pending.hint = hint_of(source);
        const wire::Name root_name = security::manifest_name(block.name, 0);
        if (const auto root = std::ranges::find(roots, root_name.view(), &wire::DataView::name);
            root != roots.end()) {
            pending.root.assign(root->whole().begin(), root->whole().end());
        }
        fetch_queue_.push_back(hash);
    }
    pending.requests.push_back(by);
}

std::size_t ObjectKeeper::most_fetches() const {
    return options_.window * places_of_object(kLargeObject) / places_of_object(last_bytes_);
}

void ObjectKeeper::begin_fetches() {
    while (running_fetches_ < most_fetches() && !fetch_queue_.empty()) {
        const wire::NameHash hash = fetch_queue_.front();
        fetch_queue_.pop_front();
        const auto found = pending_objects_.find(hash);
        if (found == pending_objects_.end() || found->second.fetch)
            continue;  // not needed any more
        PendingObject& pending = found->second;
        const bool is_from_neighbour = !pending.root.empty();  // others attach no roots
        ObjectFetchSpec spec{
            .object = pending.object->name(),
            .hint = pending.hint,
            .signer = options_.signer,
            .memory = pending.object->memory(),
            .deadline = fetches_.now() + options_.fetch_time,
            .may_be_absent = true,
            .root = std::move(pending.root),
            .to_neighbour = is_from_neighbour,
        };
        ++running_fetches_;
        pending.fetch = fetches_.begin_fetch(
            std::move(spec), [this, fetched = pending.object](OperationStatus status) {
                on_fetched(fetched, status);
            });
    }
}

void ObjectKeeper::on_fetched(const std::shared_ptr<KeptObject>& fetched, OperationStatus status) {
    --running_fetches_;
    if (status == OperationStatus::kDone) last_bytes_ = fetched->memory()->bytes().size();
    const wire::NameHash object = fetched->name().view().hash();
    const auto found = pending_objects_.find(object);
    if (found != pending_objects_.end() && found->second.object == fetched) {
        const PendingObject pending = std::move(found->second);
        pending_objects_.erase(found);
        const auto end = outcome_of(pending, status);
        for (const wire::NameHash request : pending.requests) settle(request, object, end);
    }
    begin_fetches();
}

std::optional<OperationStatus> ObjectKeeper::outcome_of(const PendingObject& pending,
                                                        OperationStatus status) {
    const std::shared_ptr<KeptObject>& object = pending.object;
    if (status == OperationStatus::kDone &&
        objects_.keep(object, options_.max_packet_bytes, keyring_)) {
        for (const wire::NameHash request : pending.requests) {
            object->add_requester(pending_requests_.at(request).requester);
        }
        ++unacknowledged_;
        const bool hurry = budget_->is_half_full() || unacknowledged_ > kMaxUnacknowledged / 2;
        objects_.requested().add_kept(object, fetches_.now(), hurry);
        return status;
    }
    release_budget(*object);
    // The memory budget is full, or something else took the name: a second attempt finds out.
    const bool may_be_had = status == OperationStatus::kDone || status == OperationStatus::kAborted;
    return may_be_had ? std::nullopt : std::optional(status);
}

void ObjectKeeper::settle(wire::NameHash hash, wire::NameHash object,
                          std::optional<OperationStatus> end) {
    const auto found = pending_requests_.find(hash);
    if (found == pending_requests_.end()) return;
    PendingRequest& request = found->second;
    const auto place = std::ranges::find(request.objects, object) - request.objects.begin();
    request.outcomes[static_cast<std::size_t>(place)] = end;
    --request.missing;
    if (end && request.missing > 0) return;
    // Delegate at the first failure: the application needs the remaining time.
    PendingRequest settled = std::move(request);
    pending_requests_.erase(found);
    end ? finish(settled) : delegate(settled);
}

void ObjectKeeper::finish(PendingRequest& request) {
    const bool is_done = std::ranges::all_of(
        request.outcomes, [](const auto& end) { return end == OperationStatus::kDone; });
    if (!is_done || !answer(request.name)) delegate(request);
}

bool ObjectKeeper::answer(const wire::Name& request) {
    const ObjectSpec spec{.name = request,
                          .bytes = *answer_,
                          .max_packet_bytes = options_.max_packet_bytes,
                          .lent = answer_,
                          .draft = true};
    if (!objects_.publish_short(spec, options_.answer_signer)) return false;
    remember(request, true);
    return true;
}

void ObjectKeeper::delegate(PendingRequest& request) {
    const wire::NameHash hash = request.name.view().hash();
    for (const wire::NameHash object : request.objects) unsubscribe(object, hash);
    remember(request.name, false);
    objects_.requested().add_unanswered(request.name, std::move(request.outcomes));
}

void ObjectKeeper::unsubscribe(wire::NameHash object, wire::NameHash request) {
    const auto found = pending_objects_.find(object);
    if (found == pending_objects_.end()) return;
    PendingObject& pending = found->second;
    if (std::erase(pending.requests, request) == 0 || !pending.requests.empty()) return;
    if (pending.fetch) fetches_.end_fetch(*pending.fetch);
    release_budget(*pending.object);
    pending_objects_.erase(found);
}

void ObjectKeeper::release_budget(const KeptObject& object) {
    budget_->release(object.memory()->charge());
}

void ObjectKeeper::on_acknowledged(const KeepAcknowledgement& acknowledgement) {
    unacknowledged_ -= std::min(unacknowledged_, acknowledgement.objects);
    budget_->release(acknowledgement.bytes);
    budget_->resize(acknowledgement.budget_bytes);
}

void ObjectKeeper::remember(const wire::Name& request, bool answered) {
    if (settled_.size() >= kMaxSettled) {
        forget(settled_.front());
        settled_.pop_front();
    }
    if (!answered) delegated_.insert(request.view().hash());
    settled_.push_back({fetches_.now() + options_.answer_time, request, answered});
}

void ObjectKeeper::forget(const SettledRequest& settled) {
    if (settled.answered) {
        objects_.withdraw(settled.name);
    } else {
        delegated_.erase(settled.name.view().hash());
    }
}

void ObjectKeeper::on_timer(TimePoint now) {
    while (!settled_.empty() && settled_.front().until <= now) {
        forget(settled_.front());
        settled_.pop_front();
    }
}

TimePoint ObjectKeeper::next_deadline() const {
    return settled_.empty() ? kNever : settled_.front().until + kForgetDelay;
}

void ObjectKeeper::close() {
    for (const auto& [hash, pending] : pending_objects_) {
        if (pending.fetch) fetches_.end_fetch(*pending.fetch);
    }
    pending_objects_.clear();
    pending_requests_.clear();
    fetch_queue_.clear();
    for (const SettledRequest& settled : settled_) forget(settled);
    settled_.clear();
    const wire::Name objects(options_.requests.view().parent().parent());
    objects_.drop_kept(objects);
    objects_.requested().drop_kept(objects);
}

}  // namespace innet
