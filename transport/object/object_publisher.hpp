#pragma once
// The objects that an endpoint offers, and those that it is still cutting.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/application/application.hpp"
#include "transport/endpoint/operation.hpp"
#include "transport/object/object_publication.hpp"

namespace innet {

class ObjectPublisher {
  public:
    /// Everything referenced must outlive the publisher.
    ObjectPublisher(Forwarder& forwarder, PacketPool& pool) : forwarder_(forwarder), pool_(pool) {}

    /// Objects under `prefix` are ours. Who asks for one that is not there waits, and hears that
    /// `label` (a rank) is late.
    void register_prefix(const wire::Name& prefix, std::string label);
    /// Drops the prefix with its objects.
    void unregister_prefix(const wire::Name& prefix);

    /// Starts publishing; the completion comes from `advance` (or at once, when the spec is wrong).
    void publish(OperationId id, const ObjectSpec& spec,
                 std::unique_ptr<security::Signer> root_signer);
    /// Drops an object. Caches on the way may still have it.
    void withdraw(const wire::Name& object);
    /// Ends a publication that is not complete; false when there is none of that id.
    bool cancel(OperationId id);
    /// Ends the publications under `prefix` that are not complete.
    void abort(const wire::Name& prefix, const std::string& why);

    /// `advance` has something to do.
    bool busy() const { return !under_way_.empty(); }
    /// Does a slice of the work, well under a millisecond of it.
    void advance();
    void take_completions(std::vector<OperationCompletion>& into);

    bool covers(wire::NameView name) const { return prefix_of(name) != nullptr; }
    Production produce(wire::NameView name);

    std::uint64_t segments_served() const { return segments_served_; }
    std::uint64_t retained_bytes() const;

  private:
    struct Prefix {
        wire::Name name;
        std::string label;
    };
    struct UnderWay {
        OperationId id = 0;
        std::unique_ptr<ObjectPublication> object;
    };

    const Prefix* prefix_of(wire::NameView name) const;
    std::optional<std::string> refusal(const ObjectSpec& spec) const;
    void end_under(const wire::Name& prefix, OperationStatus status, const std::string& detail);
    void end_first(OperationStatus status, std::string detail);
    void offer(std::unique_ptr<ObjectPublication> object);

    Forwarder& forwarder_;
    PacketPool& pool_;
    std::vector<Prefix> prefixes_;
    std::deque<UnderWay> under_way_;
    std::unordered_map<wire::NameHash, std::unique_ptr<ObjectPublication>> objects_;
    std::vector<OperationCompletion> completions_;
    std::uint64_t segments_served_ = 0;
};

}  // namespace innet
