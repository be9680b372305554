#pragma once
// The objects that an endpoint offers, and those that it is still cutting.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/application/application.hpp"
#include "transport/endpoint/operation.hpp"
#include "transport/object/object_publication.hpp"

namespace innet {

class ObjectPublisher {
  public:
    /// What happens to who asks for an object that is not there.
    enum class Missing : std::uint8_t {
        kWait,    ///< it may yet come: the asker waits, and hears that somebody is late
        kRefuse,  ///< as in a cache: the asker is told at once (NackReason kNoData)
    };

    /// Everything referenced must outlive the publisher. `virtual_scale` as in EndpointOptions.
    ObjectPublisher(std::uint32_t virtual_scale, Forwarder& forwarder, PacketPool& pool)
        : virtual_scale_(virtual_scale), forwarder_(forwarder), pool_(pool) {}

    /// Objects under `prefix` are ours. `label` (a rank) is who is late when one is waited for.
    void register_prefix(const wire::Name& prefix, std::string label, Missing missing);
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

    /// Objects of refusing prefixes whose root was asked for since the last call, in that order:
    /// what a cache's eviction has to know. The oldest of very many are left out.
    std::vector<wire::Name> take_asked() { return std::exchange(asked_, {}); }

    bool covers(wire::NameView name) const { return prefix_of(name) != nullptr; }
    Production produce(wire::NameView name);

    std::uint64_t segments_served() const { return segments_served_; }
    std::uint64_t retained_bytes() const;

  private:
    struct Prefix {
        wire::Name name;
        std::string label;
        Missing missing = Missing::kWait;
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
    void remember_asked(wire::NameView object);

    std::uint32_t virtual_scale_;
    Forwarder& forwarder_;
    PacketPool& pool_;
    std::vector<Prefix> prefixes_;
    std::deque<UnderWay> under_way_;
    std::unordered_map<wire::NameHash, std::unique_ptr<ObjectPublication>> objects_;
    std::vector<OperationCompletion> completions_;
    std::vector<wire::Name> asked_;
    std::uint64_t segments_served_ = 0;
};

}  // namespace innet
