#pragma once
// A listening stream socket, Unix or TCP.

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "switch_emulator/driver/face_uri.hpp"
#include "switch_emulator/driver/file_descriptor.hpp"

namespace innet::driver {

struct StreamListenerOptions {
    FaceUri uri;  ///< kUnix or kTcp; with port 0 the system chooses one
    /// Permissions to connect to a Unix socket.
    mode_t permissions = 0600;
    /// Takes a Unix socket's path over from its owner, even if that process is alive.
    bool takes_over = false;
};

/// An accepted connection.
struct Connection {
    FileDescriptor fd;  ///< does not block
    std::string remote_uri;
    std::string local_uri;
    bool is_local = false;  ///< the peer is on this machine
};

enum class AcceptState : std::uint8_t {
    kAccepted,
    kNobody,   ///< waits, or he is gone again
    kRefused,  ///< this process has no descriptor left for him
};

class StreamListener {
  public:
    /// Null, with `error` saying what failed and why. A Unix socket whose owner is dead is
    /// replaced.
    static std::unique_ptr<StreamListener> open(const StreamListenerOptions& options,
                                                std::string& error);
    /// Removes a Unix socket's file, if it is still this listener's.
    ~StreamListener();
    StreamListener(const StreamListener&) = delete;
    StreamListener& operator=(const StreamListener&) = delete;

    int fd() const { return fd_.get(); }
    /// With the port that the system chose.
    const FaceUri& uri() const { return uri_; }
    AcceptState accept(Connection& into);

  private:
    StreamListener(FileDescriptor fd, FaceUri uri);

    FileDescriptor fd_;
    /// Closed for a moment when no other descriptor is left, so that a waiting connection can be
    /// refused and does not keep the listener readable for ever.
    FileDescriptor reserve_;
    FaceUri uri_;
    dev_t device_ = 0;  ///< of a Unix socket's file
    ino_t inode_ = 0;
};

}  // namespace innet::driver
