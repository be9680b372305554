#pragma once
// The keepers of an endpoint: one for each pool that the node is in.

#include <memory>
#include <vector>

#include "transport/object/object_keeper.hpp"

namespace innet {

class ObjectKeepers final : public RequestHandler {
  public:
    /// Both outlive the keepers, which outlive their fetches.
    ObjectKeepers(ObjectPublisher& objects, KeeperFetches& fetches)
        : objects_(objects), fetches_(fetches) {
        objects_.set_request_handler(this);
    }

    /// Adds a keeper; there must be none for the same requests. `keyring` must outlive it.
    void add(KeepOptions options, const security::Keyring& keyring);
    /// The keeper is to be held until its fetches have ended; null: there is none.
    [[nodiscard]] std::unique_ptr<ObjectKeeper> close(const wire::Name& requests);
    void on_acknowledged(const wire::Name& requests, const KeepAcknowledgement& acknowledgement);

    bool handle_request(wire::NameView object, wire::ByteView attached_roots) override;
    void on_timer(TimePoint now);
    TimePoint next_deadline() const;

  private:
    ObjectPublisher& objects_;
    KeeperFetches& fetches_;
    std::vector<std::unique_ptr<ObjectKeeper>> keepers_;
};

}  // namespace innet
