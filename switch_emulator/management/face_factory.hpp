#pragma once
// The interface by which management creates and changes faces; the driver of the sockets implements
// it.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "switch_emulator/forwarding/face.hpp"
#include "switch_emulator/port/congestion_marker.hpp"

namespace innet::management {

/// When a face is closed: numbers of NFD's FacePersistency.
enum class FacePersistency : std::uint8_t {
    kPersistent = 0,  ///< when it is destroyed, or fails for good
    kOnDemand = 1,    ///< also when its peer is gone, or nothing was heard for long
    kPermanent = 2,   ///< only when it is destroyed
};

enum class LinkType : std::uint8_t { kPointToPoint = 0, kMultiAccess = 1, kAdHoc = 2 };

/// A face as NFD's clients see it. URIs as NFD writes them: `udp4://192.0.2.1:6363`,
/// `tcp6://[::1]:6363`, `unix:///run/nfd/nfd.sock`, `fd://17`.
struct FaceDescription {
    std::string remote_uri;
    std::string local_uri;
    FacePersistency persistency = FacePersistency::kPersistent;
    LinkType link_type = LinkType::kPointToPoint;
    std::optional<std::uint64_t> mtu;  ///< bytes; unset: no limit of its own (streams)
    /// Unset: the face marks nothing by itself (a link of an emulation has a queue of its own).
    std::optional<port::CongestionMarkerOptions> marking{};
};

struct FaceRequest {
    std::string remote_uri;
    std::string local_uri;  ///< empty: any
    FacePersistency persistency = FacePersistency::kPersistent;
    std::optional<std::uint64_t> mtu;
};

/// Why there is no new face. `code` is the ControlResponse's: 400 malformed or not canonical URI,
/// 406 what this node does not make (such as an unknown persistency), 408 no connection in time,
/// 409 there is such a face (`existing`), 501 unknown scheme, 504 the connection was refused.
struct FaceFailure {
    std::uint32_t code = 0;
    std::string text;
    FaceId existing = kNoFace;
};

using FaceCreation = std::variant<FaceId, FaceFailure>;

/// Implementations call nothing of the node from within these functions: they remember, and do it
/// when the current packet is done.
class FaceFactory {
  public:
    virtual ~FaceFactory() = default;
    /// `done` is called once, later, on the node's thread; the packets that management then has for
    /// the node are waiting in it (`Node::run_pending`).
    virtual void create(const FaceRequest& request, std::function<void(FaceCreation)> done) = 0;
    /// False when the face is none that may be taken down by a client (a link of an emulation).
    virtual bool destroy(FaceId face) = 0;
    /// False when the face cannot have this persistency.
    virtual bool set_persistency(FaceId face, FacePersistency persistency) = 0;
    /// False when the face marks nothing by itself.
    virtual bool set_congestion_marking(FaceId face,
                                        const port::CongestionMarkerOptions& options) = 0;
    /// Nothing for a number that is no open face.
    virtual std::optional<FaceDescription> describe(FaceId face) const = 0;
    /// Local URIs of what listens for connections and peers.
    virtual std::vector<std::string> channels() const = 0;
};

}  // namespace innet::management
