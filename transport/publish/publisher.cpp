#include "transport/publish/publisher.hpp"

#include <algorithm>
#include <utility>

#include "transport/wire/text.hpp"

namespace innet {

namespace {

/// Bytes of a packet for names, metadata and signature beside the content.
constexpr std::size_t kMaxOverhead = 1024;
/// Limit for the names; the rest is for numbers, metadata and the signature.
constexpr std::size_t kMaxNames = 768;

/// Failures kept for a producer. One more takes the place of the oldest, whose requesters go on
/// until their deadline: a program whose calls all fail proves of none that every rank knows it.
constexpr std::size_t kMaxFailures = 1024;

/// Components of a collective's name after its producer's prefix: the call and its sequence number.
constexpr std::size_t kCollectiveComponents = 2;

/// Components of a message's kind: its type, its receiver and its tag.
constexpr std::size_t kMessageKindComponents = 3;

std::optional<std::uint64_t> sequence_number(wire::NameView tensor) {
    const wire::Element last = tensor.last_component();
    if (last.type != wire::kSequenceNumComponent) return std::nullopt;
    return wire::read_nonnegative(last.value);
}

/// True when `ends` cut `size` bytes into the segments of `cut`, none longer than it says.
bool fits(std::span<const std::uint64_t> ends, const Segmentation& cut, std::size_t size) {
    if (cut.blocks != 1 || ends.size() != cut.segments() || ends.back() != size) return false;
    std::uint64_t begin = 0;
    for (const std::uint64_t end : ends) {
        if (end < begin || end - begin > cut.segment_bytes) return false;
        begin = end;
    }
    return true;
}

/// Whether the last `count` components of both are the same.
bool end_alike(wire::NameView a, wire::NameView b, std::size_t count) {
    if (std::min(a.size(), b.size()) < count) return false;
    for (std::size_t i = 1; i <= count; ++i) {
        const wire::Element one = a.component(a.size() - i);
        const wire::Element other = b.component(b.size() - i);
        if (one.type != other.type || !std::ranges::equal(one.value, other.value)) return false;
    }
    return true;
}

wire::Name joined(const wire::Name& prefix, const wire::Name& kind) {
    wire::Name name = prefix;
    for (std::size_t i = 0; i < kind.view().size(); ++i) {
        const wire::Element component = kind.view().component(i);
        name.append(component.type, component.value);
    }
    return name;
}

}  // namespace

/// A call that failed here before it published.
struct Publisher::Failure {
    wire::Name suffix;
    std::uint64_t seq = 0;
    wire::TensorErrorCode code = wire::TensorErrorCode::kFailed;
    std::string why;

    /// True when the call would have published under `kind`, a tensor's name without its sequence
    /// number: one component of any type, and the suffix.
    bool covers(const wire::Name& prefix, wire::NameView kind) const {
        return kind.size() == prefix.view().size() + 1 + suffix.view().size() &&
               end_alike(kind, suffix.view(), suffix.view().size());
    }

    bool is_retired(const wire::Name& producer, const wire::Name& retired,
                    std::uint64_t up_to) const {
        if (seq > up_to) return false;
        return suffix.view().empty() ? retired.view().is_prefix_of(producer.view())
                                     : covers(producer, retired.view());
    }
};

struct Publisher::Producer {
    /// Collectives from `seq` on are never published here; without it, nothing more is.
    struct End {
        std::optional<std::uint64_t> seq;
        std::string why;
    };

    wire::Name prefix;
    std::string label;
    std::shared_ptr<security::Signer> signer;
    PublicationTable publications;
    std::vector<Failure> failures;
    WaitingTensors waiting;
    std::optional<End> end;
    /// Shared with publications, which may outlive their producer.
    std::shared_ptr<AheadHistory> ahead = std::make_shared<AheadHistory>();

    ~Producer() { ahead->end(); }

    bool never_publishes(wire::NameView tensor, std::uint64_t seq) const {
        if (!end || !end->seq) return end.has_value();
        return seq >= *end->seq && tensor.size() == prefix.view().size() + kCollectiveComponents;
    }

    /// The failed call that would have published `tensor`.
    const Failure* failure_of(wire::NameView tensor, std::uint64_t seq) const {
        const auto found = std::ranges::find_if(failures, [&](const Failure& failure) {
            return failure.seq == seq && failure.covers(prefix, tensor.parent());
        });
        return found == failures.end() ? nullptr : &*found;
    }
};

Publisher::Publisher(std::uint32_t virtual_scale, Forwarder& forwarder, PacketPool& pool,
                     security::Signer& signer)
    : virtual_scale_(virtual_scale),
      forwarder_(forwarder),
      pool_(pool),
      own_signer_(std::shared_ptr<void>(), &signer) {}

Publisher::~Publisher() = default;

void Publisher::set_signer(const wire::Name& prefix, std::shared_ptr<security::Signer> signer) {
    std::erase_if(signers_, [&](const auto& scoped) { return scoped.first == prefix; });
    if (signer) signers_.emplace_back(prefix, std::move(signer));
}

std::shared_ptr<security::Signer> Publisher::signer_below(wire::NameView prefix) const {
    const auto found = std::ranges::find_if(
        signers_, [&](const auto& scoped) { return scoped.first.view().is_prefix_of(prefix); });
    return found == signers_.end() ? own_signer_ : found->second;
}

void Publisher::register_producer(const wire::Name& prefix, std::string label) {
    if (producer_at(prefix) != nullptr) return;
    auto producer = std::make_unique<Producer>();
    producer->prefix = prefix;
    producer->label = std::move(label);
    producer->signer = signer_below(prefix.view());
    producers_.put(prefix, std::move(producer));
}

void Publisher::unregister_producer(const wire::Name& prefix) {
    Producer* const producer = producer_at(prefix);
    if (producer == nullptr) return;
    producer->publications.for_each([&](const PublicationTable::Entry& entry) {
        by_name_.erase(entry.publication->name().hash());
    });
    for (const WaitingTensor& tensor :
         producer->waiting.take_if([](const WaitingTensor&) { return true; })) {
        SegmentNamer namer(tensor.name.view());
        for (const std::uint64_t segment : tensor.segments) {
            forwarder_.nack(namer.segment(segment), wire::NackReason::kNoRoute);
        }
    }
    producers_.erase(prefix);
}

void Publisher::end_producer(const wire::Name& prefix, std::optional<std::uint64_t> seq,
                             const std::string& why) {
    Producer* const producer = producer_at(prefix);
    if (producer == nullptr) return;
    producer->end = {seq, why};
    refuse_waiting(*producer);
}

Publisher::Producer* Publisher::producer_at(const wire::Name& prefix) const {
    const auto* const found = producers_.find(prefix);
    return found == nullptr ? nullptr : found->get();
}

Publisher::Producer* Publisher::producer_of(wire::NameView name) const {
    const auto* const longest = producers_.longest_of(name);
    return longest == nullptr ? nullptr : longest->get();
}

std::optional<std::string> Publisher::refusal(const PublicationSpec& spec) const {
    const Producer* producer = producer_at(spec.prefix);
    if (producer == nullptr) {
        return spec.prefix.view().to_uri() +
               " is not registered here: register the producer prefix first";
    }
    const Segmentation& cut = spec.segmentation;
    if (cut.segment_bytes == 0 ||
        std::min(cut.segment_bytes, cut.block_bytes) > kMaxPacketBytes - kMaxOverhead) {
        return "a segment must have between 1 and " +
               std::to_string(kMaxPacketBytes - kMaxOverhead) + " bytes, not " +
               std::to_string(cut.segment_bytes);
    }
    if (cut.blocks > kMaxSegments || cut.segments() > kMaxSegments) {
        return "a tensor of " + std::to_string(spec.tensor.size()) + " bytes in " +
               std::to_string(cut.segments()) + " segments: choose larger segments";
    }
    if (!spec.segment_ends.empty()) {
        if (!fits(spec.segment_ends, cut, spec.tensor.size())) {
            return "the segments' ends do not cut the tensor of " +
                   std::to_string(spec.tensor.size()) + " bytes into " +
                   std::to_string(cut.segments()) + " segments of at most " +
                   std::to_string(cut.segment_bytes) + " bytes";
        }
    } else if (cut.blocks == 0 || spec.tensor.size() / cut.blocks != cut.block_bytes ||
               spec.tensor.size() % cut.blocks != 0) {
        return "the tensor has " + std::to_string(spec.tensor.size()) +
               " bytes where the segmentation says " + std::to_string(cut.blocks) + " x " +
               std::to_string(cut.block_bytes);
    }
    wire::Name kind = joined(spec.prefix, spec.kind);
    if (kind.view().value().size() + producer->signer->key_name().value().size() > kMaxNames) {
        return kind.view().to_uri() + " is too long: it and the key's name must fit into " +
               std::to_string(kMaxNames) + " bytes";
    }
    if (spec.earlier_calls.size() > wire::kMaxEarlierCalls) {
        return "the earlier calls have " + std::to_string(spec.earlier_calls.size()) +
               " bytes of text, and at most " + std::to_string(wire::kMaxEarlierCalls) + " fit";
    }
    const PublicationTable& publications = producer->publications;
    const bool taken = publications.find(kind.view(), spec.seq) != nullptr ||
                       (spec.exclusive_seq && publications.exclusive(spec.seq) != nullptr);
    if (taken || publications.is_retired(kind.view(), spec.seq)) {
        return "sequence number " + std::to_string(spec.seq) + " of " + kind.view().to_uri() +
               (taken ? " is published already" : " is retired");
    }
    return std::nullopt;
}

std::shared_ptr<Publication> Publisher::publish(const PublicationSpec& spec) {
    wire::Name name = joined(spec.prefix, spec.kind);
    name.append_number(wire::kSequenceNumComponent, spec.seq);
    Producer& producer = *producer_of(name.view());
    auto publication = std::make_shared<Publication>(
        name, spec.tensor, spec.segmentation, spec.segment_ends, spec.tensor_elements,
        spec.description, spec.earlier_calls, virtual_scale_, pool_, producer.signer);
    publication->send_ahead_by(producer.ahead);
    by_name_.insert_or_assign(name.view().hash(), publication);
    const bool is_message =
        !spec.exclusive_seq && spec.kind.view().size() == kMessageKindComponents;
    producer.publications.add({spec.seq, spec.exclusive_seq, is_message, publication});
    return publication;
}

void Publisher::answer_waiting(const PublicationSpec& spec) {
    Producer& producer = *producer_of(spec.prefix.view());
    const wire::Name kind = joined(spec.prefix, spec.kind);
    const auto* const published = producer.publications.find(kind.view(), spec.seq);
    if (published != nullptr) answer_waiting(producer, *published);
}

void Publisher::offer(Publication& publication, std::uint64_t segment, wire::NameView hint) {
    if (!publication.take_turn_ahead(segment)) return;
    ++segments_served_;
    PacketRef packet = publication.packet(segment, true);
    if (packet) forwarder_.offer_data(std::move(packet), hint, false);
}

template <typename MakePacket>
void Publisher::answer_all(WaitingTensor tensor, MakePacket make_packet) {
    SegmentNamer namer(tensor.name.view());
    for (const std::uint64_t segment : tensor.segments) {
        PacketRef packet = make_packet(namer.segment(segment), segment);
        if (packet) forwarder_.put_data(RequesterId::kApplication, std::move(packet), false);
    }
}

void Publisher::refuse_waiting(Producer& producer) {
    const auto never_published = [&](const WaitingTensor& tensor) {
        return producer.never_publishes(tensor.name.view(), tensor.seq);
    };
    for (WaitingTensor& tensor : producer.waiting.take_if(never_published)) {
        answer_all(std::move(tensor),
                   [&](wire::NameView name, std::uint64_t) { return never_comes(name, producer); });
    }
}

bool Publisher::answer_waiting(Producer& producer, const PublicationTable::Entry& published) {
    Publication& publication = *published.publication;
    const auto is_decided = [&](const WaitingTensor& tensor) {
        const wire::NameView name = tensor.name.view();
        return name == publication.name() || published.excludes(name);
    };
    std::vector<WaitingTensor> decided = producer.waiting.take_if(published.seq, is_decided);
    for (WaitingTensor& tensor : decided) {
        const bool same = tensor.name.view() == publication.name();
        // Requesters may sit on this node and on the network: a signed packet serves both.
        answer_all(std::move(tensor), [&](wire::NameView name, std::uint64_t segment) {
            return same ? answer(publication, name, segment, true) : mismatch(name, publication);
        });
    }
    return !decided.empty();
}

void Publisher::fail(const FailureSpec& spec) {
    for (const wire::Name& prefix : spec.prefixes) {
        Producer* const at_prefix = producer_at(prefix);
        if (at_prefix == nullptr) continue;
        Producer& producer = *at_prefix;
        if (producer.failures.size() == kMaxFailures) {
            producer.failures.erase(producer.failures.begin());
        }
        producer.failures.push_back({spec.suffix, spec.seq, spec.code, spec.why});
        const Failure& failure = producer.failures.back();
        const auto covered = [&](const WaitingTensor& tensor) {
            return failure.covers(prefix, tensor.name.view().parent());
        };
        for (WaitingTensor& tensor : producer.waiting.take_if(spec.seq, covered)) {
            answer_all(std::move(tensor), [&](wire::NameView name, std::uint64_t) {
                return failed(name, failure, producer);
            });
        }
    }
}

void Publisher::retire(const wire::Name& prefix, std::uint64_t seq) {
    producers_.for_each([&](const auto& producer) {
        std::erase_if(producer->failures, [&](const Failure& failure) {
            return failure.is_retired(producer->prefix, prefix, seq);
        });
        for (const wire::NameHash name : producer->publications.retire(prefix.view(), seq)) {
            by_name_.erase(name);
        }
    });
}

PacketRef Publisher::mismatch(wire::NameView name, const Publication& published) {
    return make_tensor_error(name, wire::TensorErrorCode::kMismatch, published.description(), pool_,
                             published.signer());
}

PacketRef Publisher::never_comes(wire::NameView name, const Producer& producer) {
    return make_tensor_error(name, wire::TensorErrorCode::kAborted, producer.end->why, pool_,
                             *producer.signer);
}

PacketRef Publisher::failed(wire::NameView name, const Failure& failure, const Producer& producer) {
    return make_tensor_error(name, failure.code, failure.why, pool_, *producer.signer);
}

PacketRef Publisher::answer(Publication& publication, wire::NameView name, std::uint64_t segment,
                            bool for_network) {
    if (segment >= publication.segmentation().segments()) return mismatch(name, publication);
    ++segments_served_;
    publication.on_requested(segment);
    return publication.packet(segment, for_network);
}

Production Publisher::produce(wire::NameView name, bool for_network) {
    // The names of this node's own requests are mostly under no producer here.
    const auto parsed = SegmentName::parse(name);
    Producer* const producer = parsed ? producer_of(parsed->tensor) : nullptr;
    if (producer == nullptr) return {};
    const auto data = [](PacketRef packet) {
        return packet ? Production{Production::Kind::kData, std::move(packet), {}} : Production{};
    };
    const auto published = by_name_.find(parsed->tensor.hash());
    if (published != by_name_.end() && published->second->name() == parsed->tensor) {
        return data(answer(*published->second, name, parsed->segment, for_network));
    }
    const auto seq = sequence_number(parsed->tensor);
    if (!seq || producer->publications.is_retired(parsed->tensor.parent(), *seq)) return {};
    if (const Failure* failure = producer->failure_of(parsed->tensor, *seq)) {
        return data(failed(name, *failure, *producer));
    }
    if (const auto* const rival = producer->publications.rival(parsed->tensor, *seq)) {
        return data(mismatch(name, *rival->publication));
    }
    if (producer->never_publishes(parsed->tensor, *seq)) return data(never_comes(name, *producer));
    const auto label = std::as_bytes(std::span(producer->label));
    return {Production::Kind::kPending,
            {},
            {reinterpret_cast<const std::uint8_t*>(label.data()), label.size()}};
}

void Publisher::await(wire::NameView name, TimePoint expires, TimePoint now) {
    const auto parsed = SegmentName::parse(name);
    const auto seq = parsed ? sequence_number(parsed->tensor) : std::nullopt;
    Producer* producer = seq ? producer_of(parsed->tensor) : nullptr;
    if (producer == nullptr) return;
    producer->waiting.add(parsed->tensor, *seq, parsed->segment, expires, now);
}

void Publisher::forget(wire::NameView name) {
    const auto parsed = SegmentName::parse(name);
    const auto seq = parsed ? sequence_number(parsed->tensor) : std::nullopt;
    Producer* producer = seq ? producer_of(parsed->tensor) : nullptr;
    if (producer != nullptr) producer->waiting.remove(parsed->tensor, *seq, parsed->segment);
}

std::size_t Publisher::waiting_count() const {
    std::size_t count = 0;
    producers_.for_each([&](const auto& producer) { count += producer->waiting.segments(); });
    return count;
}

std::uint64_t Publisher::retained_bytes() const {
    std::uint64_t bytes = 0;
    producers_.for_each([&](const auto& producer) {
        producer->publications.for_each([&](const PublicationTable::Entry& entry) {
            bytes += entry.publication->retained_bytes();
        });
    });
    return bytes;
}

}  // namespace innet
