#pragma once
// Everything that an endpoint publishes: its producer prefixes, their publications, and the pending
// Interests for unpublished tensors.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/application/application.hpp"
#include "transport/endpoint/operation.hpp"
#include "transport/publish/publication.hpp"
#include "transport/publish/publication_table.hpp"
#include "transport/publish/waiting_tensors.hpp"
#include "transport/wire/prefix_map.hpp"

namespace innet {

class Publisher {
  public:
    /// Everything referenced must outlive the publisher. `virtual_scale` as in EndpointOptions.
    Publisher(std::uint32_t virtual_scale, Forwarder& forwarder, PacketPool& pool,
              security::Signer& signer);
    ~Publisher();

    /// Producers registered below `prefix` from now on sign with `signer`; null: with the
    /// publisher's own again.
    void set_signer(const wire::Name& prefix, std::shared_ptr<security::Signer> signer);

    void register_producer(const wire::Name& prefix, std::string label);
    /// Drops the prefix with its publications; pending Interests receive a Nack.
    void unregister_producer(const wire::Name& prefix);
    /// See `Endpoint::end_producer`.
    void end_producer(const wire::Name& prefix, std::optional<std::uint64_t> seq,
                      const std::string& why);

    /// Why `spec` cannot be published; nothing when it can.
    std::optional<std::string> refusal(const PublicationSpec& spec) const;
    /// Later Interests are answered; pending ones wait for `answer_waiting`. `refusal(spec)` must
    /// be nothing.
    std::shared_ptr<Publication> publish(const PublicationSpec& spec);
    /// Answers the Interests that were pending when `spec` was published.
    void answer_waiting(const PublicationSpec& spec);
    /// Sends a segment that has not been sent towards `hint`, unless that has been in vain lately.
    void offer(Publication& publication, std::uint64_t segment, wire::NameView hint);
    /// See `Endpoint::fail`.
    void fail(const FailureSpec& failure);
    /// See `Endpoint::retire`.
    void retire(const wire::Name& prefix, std::uint64_t seq);

    Production produce(wire::NameView name, bool for_network);
    /// The node keeps the Interest until `expires`, to which `produce` has just said kPending.
    void await(wire::NameView name, TimePoint expires, TimePoint now);

    /// No Interest for the segment `name` is pending any longer.
    void forget(wire::NameView name);

    std::uint64_t segments_served() const { return segments_served_; }
    std::uint64_t retained_bytes() const;
    /// Segments with pending Interests.
    std::size_t waiting_count() const;

  private:
    struct Failure;
    struct Producer;

    std::shared_ptr<security::Signer> signer_below(wire::NameView prefix) const;
    Producer* producer_of(wire::NameView name) const;
    Producer* producer_at(const wire::Name& prefix) const;
    PacketRef mismatch(wire::NameView name, const Publication& published);
    PacketRef never_comes(wire::NameView name, const Producer& producer);
    PacketRef failed(wire::NameView name, const Failure& failure, const Producer& producer);
    PacketRef answer(Publication& publication, wire::NameView name, std::uint64_t segment,
                     bool for_network);
    /// Whether any Interest was pending.
    bool answer_waiting(Producer& producer, const PublicationTable::Entry& published);
    /// Puts the packet that `make_packet(name, segment)` gives for each segment, if it gives one.
    template <typename MakePacket>
    void answer_all(WaitingTensor tensor, MakePacket make_packet);
    void refuse_waiting(Producer& producer);

    std::uint32_t virtual_scale_;
    Forwarder& forwarder_;
    PacketPool& pool_;
    std::shared_ptr<security::Signer> own_signer_;
    std::vector<std::pair<wire::Name, std::shared_ptr<security::Signer>>> signers_;  ///< by prefix
    wire::PrefixMap<std::unique_ptr<Producer>> producers_;
    std::unordered_map<wire::NameHash, std::shared_ptr<Publication>> by_name_;
    std::uint64_t segments_served_ = 0;
};

}  // namespace innet
