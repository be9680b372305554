#include "transport/object/object_keeper.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace innet {

namespace {

/// Requests that wait at once; more are left to others.
constexpr std::size_t kMaxWaiting = 4096;
/// Answers, and requests that were left to others, that are remembered. Of more, the earliest are
/// forgotten before their time.
constexpr std::size_t kMaxEnded = 4096;
/// Objects that nobody has heard of: small ones take more for their books than for themselves.
constexpr std::size_t kMaxUnheard = 4096;
/// Answers are withdrawn so late at most, and not each at a time of its own.
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
      room_(std::make_shared<ObjectRoom>(options_.room_bytes)),
      answer_(std::make_shared<const std::vector<std::uint8_t>>(std::move(options_.answer))) {}

bool ObjectKeeper::take(wire::NameView name) {
    const wire::NameHash hash = name.hash();
    if (const auto known = waiting_.find(hash); known != waiting_.end()) {
        return known->second.name.view() == name;
    }
    const bool is_busy = waiting_.size() >= kMaxWaiting || unheard_ >= kMaxUnheard;
    if (is_busy || room_->is_full() || handed_over_.contains(hash) || !objects_.is_free(name)) {
        return false;
    }
    const auto request = KeepRequest::parse(name, options_.requests);
    if (!request || !can_have_all(*request)) return false;
    Waiting& waiting = waiting_[hash];
    waiting.name = wire::Name(name);
    waiting.asker = request->asker;
    for (const KeepRequest::Block& block : request->blocks) {
        waiting.objects.push_back(block.name.view().hash());
        await(block, request->source, hash);
    }
    waiting.missing = waiting.objects.size();
    waiting.ends.resize(waiting.missing);
    begin_fetches();
    return true;
}

bool ObjectKeeper::can_have_all(const KeepRequest& request) const {
    if (request.source == node_of(options_.requests) || names_twice(request.blocks)) return false;
    return std::ranges::all_of(request.blocks, [this](const KeepRequest::Block& block) {
        const auto coming = coming_.find(block.name.view().hash());
        return coming == coming_.end() ? objects_.is_free(block.name.view())
                                       : coming->second.object->name() == block.name;
    });
}

void ObjectKeeper::await(const KeepRequest::Block& block, std::string_view source,
                         wire::NameHash by) {
    const wire::NameHash hash = block.name.view().hash();
    Coming& coming = coming_[hash];
    if (!coming.object) {
        coming.object = std::make_shared<KeptObject>(block.name, block.depth, room_);
        coming.hint = hint_of(source);
        in_turn_.push_back(hash);
    }
    coming.requests.push_back(by);
}

void ObjectKeeper::begin_fetches() {
    while (under_way_ < options_.window && !in_turn_.empty()) {
        const wire::NameHash hash = in_turn_.front();
        in_turn_.pop_front();
        const auto found = coming_.find(hash);
        if (found == coming_.end() || found->second.fetch) continue;  // nobody waits any more
        Coming& coming = found->second;
        ObjectFetchSpec spec{
            .object = coming.object->name(),
            .hint = coming.hint,
            .signer = options_.signer,
            .memory = coming.object->memory(),
            .deadline = fetches_.now() + options_.fetch_time,
            .may_be_absent = true,
        };
        ++under_way_;
        coming.fetch = fetches_.begin_fetch(
            std::move(spec),
            [this, fetched = coming.object](OperationStatus status) { on_end(fetched, status); });
    }
}

void ObjectKeeper::on_end(const std::shared_ptr<KeptObject>& fetched, OperationStatus status) {
    --under_way_;
    const wire::NameHash object = fetched->name().view().hash();
    const auto found = coming_.find(object);
    if (found != coming_.end() && found->second.object == fetched) {
        const Coming coming = std::move(found->second);
        coming_.erase(found);
        const auto end = end_of(coming, status);
        for (const wire::NameHash request : coming.requests) tell(request, object, end);
    }
    begin_fetches();
}

std::optional<OperationStatus> ObjectKeeper::end_of(const Coming& coming, OperationStatus status) {
    const std::shared_ptr<KeptObject>& object = coming.object;
    if (status == OperationStatus::kDone &&
        objects_.keep(object, options_.max_packet_bytes, keyring_)) {
        for (const wire::NameHash request : coming.requests) {
            object->add_asker(waiting_.at(request).asker);
        }
        ++unheard_;
        const bool hurry = room_->is_half_full() || unheard_ > kMaxUnheard / 2;
        objects_.asked().add_kept(object, fetches_.now(), hurry);
        return status;
    }
    give_back_room(*object);
    // There was no room, or the name is another's by now: who looks again finds out what that is.
    const bool may_be_had = status == OperationStatus::kDone || status == OperationStatus::kAborted;
    return may_be_had ? std::nullopt : std::optional(status);
}

void ObjectKeeper::tell(wire::NameHash hash, wire::NameHash object,
                        std::optional<OperationStatus> end) {
    const auto found = waiting_.find(hash);
    if (found == waiting_.end()) return;
    Waiting& request = found->second;
    const auto place = std::ranges::find(request.objects, object) - request.objects.begin();
    request.ends[static_cast<std::size_t>(place)] = end;
    --request.missing;
    if (end && request.missing > 0) return;
    // A request that others have to do must not wait for its other objects: they need the time.
    Waiting ended = std::move(request);
    waiting_.erase(found);
    end ? finish(ended) : hand_over(ended);
}

void ObjectKeeper::finish(Waiting& request) {
    const bool is_done = std::ranges::all_of(
        request.ends, [](const auto& end) { return end == OperationStatus::kDone; });
    if (!is_done || !answer(request.name)) hand_over(request);
}

bool ObjectKeeper::answer(const wire::Name& request) {
    const ObjectSpec spec{request, *answer_, options_.max_packet_bytes, nullptr, answer_};
    if (!objects_.publish_short(spec, options_.answer_signer)) return false;
    remember(request, true);
    return true;
}

void ObjectKeeper::hand_over(Waiting& request) {
    const wire::NameHash hash = request.name.view().hash();
    for (const wire::NameHash object : request.objects) leave(object, hash);
    remember(request.name, false);
    objects_.asked().add_tried(request.name, std::move(request.ends));
}

void ObjectKeeper::leave(wire::NameHash object, wire::NameHash request) {
    const auto found = coming_.find(object);
    if (found == coming_.end()) return;
    Coming& coming = found->second;
    if (std::erase(coming.requests, request) == 0 || !coming.requests.empty()) return;
    if (coming.fetch) fetches_.end_fetch(*coming.fetch);
    give_back_room(*coming.object);
    coming_.erase(found);
}

void ObjectKeeper::give_back_room(const KeptObject& object) {
    room_->give_back(object.memory()->bytes().size());
}

void ObjectKeeper::on_heard(const KeptHeard& heard) {
    unheard_ -= std::min(unheard_, heard.objects);
    room_->give_back(heard.bytes);
    room_->resize(heard.room_bytes);
}

void ObjectKeeper::remember(const wire::Name& request, bool answered) {
    if (ended_.size() >= kMaxEnded) {
        forget(ended_.front());
        ended_.pop_front();
    }
    if (!answered) handed_over_.insert(request.view().hash());
    ended_.push_back({fetches_.now() + options_.answer_time, request, answered});
}

void ObjectKeeper::forget(const Ended& ended) {
    if (ended.answered) {
        objects_.withdraw(ended.name);
    } else {
        handed_over_.erase(ended.name.view().hash());
    }
}

void ObjectKeeper::on_timer(TimePoint now) {
    while (!ended_.empty() && ended_.front().until <= now) {
        forget(ended_.front());
        ended_.pop_front();
    }
}

TimePoint ObjectKeeper::next_deadline() const {
    return ended_.empty() ? kNever : ended_.front().until + kForgetDelay;
}

void ObjectKeeper::close() {
    for (const auto& [hash, coming] : coming_) {
        if (coming.fetch) fetches_.end_fetch(*coming.fetch);
    }
    coming_.clear();
    waiting_.clear();
    in_turn_.clear();
    for (const Ended& ended : ended_) forget(ended);
    ended_.clear();
    const wire::Name objects(options_.requests.view().parent().parent());
    objects_.drop_kept(objects);
    objects_.asked().drop_kept(objects);
}

}  // namespace innet
