#pragma once
// What answers for the node itself: its management.

#include "switch_emulator/forwarding/face.hpp"
#include "transport/application/application.hpp"
#include "transport/time.hpp"
#include "transport/wire/interest.hpp"

namespace innet::forwarding {

/// Asked for every name below `/localhost/nfd` and `/localhop/nfd`, before the content store.
/// It must not close faces, nor hand packets to the node, from within its functions.
class LocalService {
  public:
    virtual ~LocalService() = default;
    /// kData answers at once; kPending: `Forwarder::put_data` follows, before the Interest's
    /// lifetime ends; kAbsent and kNotMine: refused.
    virtual Production answer(FaceId from, const wire::InterestView& interest, TimePoint now) = 0;
    /// Called before the number can be another face's.
    virtual void on_face_closed(FaceId face) = 0;
    virtual void on_timer(TimePoint now) = 0;
    virtual TimePoint next_deadline() const = 0;
};

}  // namespace innet::forwarding
