// Root manifests attached to a request: the tag is right or not, and the packets are any bytes.

#include "transport/object/attached_roots.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "tests/fuzz/require.hpp"
#include "transport/object/kept_object.hpp"
#include "transport/object/object_fetch.hpp"

namespace {

using innet::ObjectFetch;
using innet::PacketRef;
using innet::fuzz::require;
using innet::security::SegmentTagger;
using innet::wire::ByteView;
using innet::wire::DataView;
using innet::wire::NameView;

constexpr std::uint64_t kBudgetBytes = 1 << 16;

enum class Choice : std::uint8_t { kRight, kUntagged, kOtherRequest, kChanged };

SegmentTagger& tagger() {
    constexpr std::array<std::uint8_t, SegmentTagger::kKeySize> kKey{1, 2, 3};
    static SegmentTagger tagger(kKey);
    return tagger;
}

/// A home's fetch of the object of `root`, which it has from a request or has yet to request.
class Fetch {
  public:
    Fetch(const DataView& root, bool is_given)
        : object_(innet::wire::Name(root.name().parent().parent()), 0,
                  std::make_shared<innet::MemoryBudget>(kBudgetBytes)),
          fetch_({.object = object_.name(),
                  .signer = innet::wire::Name(root.key_name()),
                  .memory = object_.memory(),
                  .root = is_given ? std::vector(root.whole().begin(), root.whole().end())
                                   : std::vector<std::uint8_t>()}) {}

    /// Whether the root is requested; otherwise what follows it is.
    bool requests_root() {
        const auto stage = fetch_.next_stage();
        require(stage.has_value(), "a fetch has a stage");
        const bool requests_root = stage->receiver != nullptr && stage->first_segment == 0;
        require(requests_root != object_.memory()->root_is_proven(),
                "a root that is not requested is proven");
        require(stage->into.size() <= kBudgetBytes, "an object fits into the budget");
        return requests_root;
    }

    innet::OperationStatus receive(const DataView& root) {
        if (!fetch_.accepts(0, root)) return innet::OperationStatus::kUntrusted;
        return fetch_.receive(0, root).status;
    }

    ByteView root() const { return object_.memory()->root(); }

  private:
    innet::KeptObject object_;
    ObjectFetch fetch_;
};

/// A given root saves its request, or changes nothing.
void fetch_with(const DataView& root) {
    if (!innet::security::is_root_manifest(root.name())) return;
    Fetch with(root, true);
    Fetch without(root, false);
    require(without.requests_root(), "a root that is not given is requested");
    const auto status = without.receive(root);
    if (with.requests_root()) {
        require(with.receive(root) == status, "a root that does not serve is as if not given");
    } else {
        require(status == innet::OperationStatus::kDone,
                "a given root is as good as a received one");
    }
    require(std::ranges::equal(with.root(), without.root()), "a kept root is the one received");
}

/// All roots, which are Data packets and in their order all of the bytes; or none.
void read(NameView request, const PacketRef& attached, innet::PacketPool& pool) {
    const auto roots = innet::read_attached_roots(request, attached.bytes(), tagger());
    if (roots.empty()) return;
    std::vector<PacketRef> packets;
    for (const DataView& root : roots) packets.push_back(pool.copy_of(root.whole()));
    const PacketRef again = innet::attach_roots(request, packets, tagger(), pool);
    require(std::ranges::equal(again.bytes(), attached.bytes()),
            "roots are read as they were attached");
    for (const DataView& root : roots) fetch_with(root);
}

void require_none(NameView request, ByteView attached) {
    require(innet::read_attached_roots(request, attached, tagger()).empty(),
            "only a holder of the key attaches roots");
}

}  // namespace

/// The first byte chooses what is wrong with the tag; then the request's Name, and the roots.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    static innet::PacketPool pool;
    if (size == 0) return 0;
    innet::wire::Reader reader(ByteView(bytes + 1, size - 1));
    const auto element = reader.next();
    const auto request = element ? NameView::parse(element->value) : std::nullopt;
    if (!request) return 0;
    const auto choice = static_cast<Choice>(bytes[0] % 4);
    if (choice == Choice::kUntagged) {
        require_none(*request, reader.rest());
        return 0;
    }
    const std::array<PacketRef, 1> roots{pool.copy_of(reader.rest())};
    PacketRef attached = innet::attach_roots(*request, roots, tagger(), pool);
    if (!roots[0] || !attached) return 0;
    if (choice == Choice::kRight) {
        read(*request, attached, pool);
    } else if (choice == Choice::kOtherRequest) {
        innet::wire::Name other(*request);
        require_none(other.append("x").view(), attached.bytes());
    } else {
        attached.writable()[bytes[0] / 4 % attached.size()] ^= 0x80;
        require_none(*request, attached.bytes());
    }
    return 0;
}
