#pragma once
// Fetches an object that was signed once: its root manifest by name, then the manifests below it,
// level by level, and at last the segments, all by full names. Any node on the path, caches
// included, can only answer with the producer's bytes (docs/protocol.md, "Objects").

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/endpoint/operation.hpp"
#include "transport/endpoint/segment_receiver.hpp"
#include "transport/object/object_memory.hpp"
#include "transport/security/manifest.hpp"
#include "transport/security/segment_tagger.hpp"

namespace innet {

struct ObjectFetchSpec {
    wire::Name object;
    wire::Name hint;    ///< ForwardingHint of the publisher's node
    wire::Name signer;  ///< name of the only key that may sign the root manifest
    std::shared_ptr<ObjectMemory> memory;
    TimePoint deadline = kNever;
    /// The queried node refuses missing objects: its Nack kNoData ends the fetch. Without this,
    /// such a Nack can only be the result of a damaged packet and is ignored.
    bool may_be_absent = false;
    /// The root manifest is all that is fetched; the memory stays empty.
    bool root_only = false;
    /// The root manifest, a Data packet, if the requester has it already from a holder of the
    /// objects' key. The root is requested nevertheless if this one does not serve.
    std::vector<std::uint8_t> root = {};
    /// The queried node is at the other end of a link: its root may be a draft, if this one has the
    /// key of tags, and roots may be attached to the request.
    bool to_neighbour = false;
    /// Objects published here whose roots are attached to the request, once they are published, if
    /// all together fit into a packet of `max_request_bytes`.
    std::vector<wire::Name> attached = {};
    std::size_t max_request_bytes = 0;
};

/// The stages of one fetch. A stage starts when the previous one is complete:
///
///     ObjectFetch object(spec);
///     while (auto stage = object.next_stage()) { /* fetch all of *stage */ }
///
/// Data passed to `receive` must be verified by its key, or vouched for by this.
class ObjectFetch final : public SegmentReceiver {
  public:
    /// `tagger` checks the root and the segments by their tags, where the root has them. Null: its
    /// signature and digests alone do.
    explicit ObjectFetch(ObjectFetchSpec spec,
                         std::shared_ptr<security::SegmentTagger> tagger = nullptr)
        : spec_(std::move(spec)), tagger_(std::move(tagger)) {}

    /// The next fetch; its digests and buffers live until the next call. Nothing when the object is
    /// complete.
    std::optional<FetchSpec> next_stage();

    /// False for a root of another signer, which is counted.
    bool accepts(std::uint64_t manifest, const wire::DataView& data) override;
    /// A manifest of the current stage. kMismatch: the object has another size than the caller's
    /// memory. kAborted: a manifest is malformed, or there is no memory for the object.
    AnswerCheck receive(std::uint64_t manifest, const wire::DataView& data) override;
    /// Of a root by its tag, where there is a `tagger`.
    bool vouches_for(std::uint64_t manifest, const wire::DataView& data) override;

    const wire::Name& name() const { return spec_.object; }
    ObjectMemory& memory() const { return *spec_.memory; }
    const std::vector<wire::Name>& attached() const { return spec_.attached; }
    /// Whether the current stage is for the root, and a draft from a neighbour would be accepted.
    bool accepts_draft() const {
        return spec_.to_neighbour && tagger_ != nullptr && stages_begun_ == 1;
    }
    std::size_t max_request_bytes() const { return spec_.max_request_bytes; }
    bool may_be_absent() const { return spec_.may_be_absent; }
    /// Roots of other signers so far, until the right one arrives.
    std::uint64_t forged_roots() const { return verifier_ ? 0 : forged_roots_; }

    /// Readable text: the missing root and any root received in its place; empty once received.
    std::string missing() const;

  private:
    bool is_of_signer(const wire::DataView& root) const;
    /// Whether the given root serves in place of the first stage.
    bool takes_given_root();
    AnswerCheck receive_root(const wire::DataView& root);
    /// Makes room for the object of a root whose verifier is `verifier_`.
    AnswerCheck use_root(const wire::DataView& root);
    AnswerCheck make_room(const security::ObjectExtent& extent, wire::ByteView root);
    FetchSpec manifests(const security::ManifestTree::Level& level);
    FetchSpec segments();
    std::string uri() const { return spec_.object.view().to_uri(); }

    ObjectFetchSpec spec_;
    std::shared_ptr<security::SegmentTagger> tagger_;
    std::optional<security::ManifestVerifier> verifier_;
    Segmentation segmentation_;
    std::vector<security::Sha256Digest> digests_;  ///< of the current stage
    std::size_t stages_begun_ = 0;
    std::uint64_t forged_roots_ = 0;
    std::string last_forger_;  ///< key that the last forged root names
};

}  // namespace innet
