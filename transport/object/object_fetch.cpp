#include "transport/object/object_fetch.hpp"

#include <algorithm>
#include <utility>

namespace innet {

namespace {

constexpr security::ManifestTree::Level kRootLevel{0, 1};

AnswerCheck malformed(wire::NameView manifest) {
    return {OperationStatus::kAborted,
            "the manifest " + manifest.to_uri() +
                " is malformed, although its publisher vouches for it; does it run the same "
                "version of innet?"};
}

}  // namespace

std::optional<FetchSpec> ObjectFetch::next_stage() {
    if (stages_begun_ == 0 && takes_given_root()) ++stages_begun_;
    const std::size_t stage = stages_begun_++;
    if (stage == 0) return manifests(kRootLevel);
    if (spec_.root_only) return std::nullopt;
    const auto levels = verifier_->tree().levels();
    if (verifier_->object_within_root() || stage > levels.size()) {
        spec_.memory->set_complete();
        return std::nullopt;
    }
    const auto& above = levels[stage - 1];
    digests_ = verifier_->listed_by(above.first, above.count);
    return stage < levels.size() ? manifests(levels[stage]) : segments();
}

FetchSpec ObjectFetch::manifests(const security::ManifestTree::Level& level) {
    FetchSpec fetch;
    fetch.targets = {
        {wire::Name(security::manifest_name(spec_.object, 0).view().parent()), spec_.hint, false}};
    fetch.first_segment = level.first;
    fetch.end_segment = level.first + level.count;
    fetch.digests = digests_;
    fetch.receiver = this;
    return fetch;
}

FetchSpec ObjectFetch::segments() {
    FetchSpec fetch;
    fetch.targets = {{spec_.object, spec_.hint, false}};
    fetch.segmentation = segmentation_;
    fetch.end_segment = segmentation_.segments();
    fetch.tensor_elements = segmentation_.block_bytes;
    fetch.into = spec_.memory->bytes();
    spec_.memory->keep_digests(std::move(digests_));
    if (!tagger_ || verifier_->has_digests()) fetch.digests = spec_.memory->digests();
    if (tagger_) {
        fetch.tagger = tagger_.get();
        fetch.tags = verifier_->tags();
    }
    return fetch;
}

bool ObjectFetch::accepts(std::uint64_t manifest, const wire::DataView& data) {
    if (manifest != 0 || is_of_signer(data)) return true;
    ++forged_roots_;
    last_forger_ = data.key_name().empty() ? "no key" : data.key_name().to_uri();
    return false;
}

AnswerCheck ObjectFetch::receive(std::uint64_t manifest, const wire::DataView& data) {
    if (manifest == 0) return receive_root(data);
    return verifier_->add_manifest(data) ? AnswerCheck{} : malformed(data.name());
}

bool ObjectFetch::vouches_for(std::uint64_t manifest, const wire::DataView& data) {
    return tagger_ && manifest == 0 && is_of_signer(data) && security::has_root_tag(data, *tagger_);
}

bool ObjectFetch::is_of_signer(const wire::DataView& root) const {
    const bool by_key = root.signature_type() == wire::SignatureType::kEd25519;
    return by_key && root.key_name() == spec_.signer.view();
}

bool ObjectFetch::takes_given_root() {
    const auto root = wire::DataView::parse(spec_.root);
    const bool is_given = root && is_of_signer(*root) && !spec_.root_only &&
                          root->name() == security::manifest_name(spec_.object, 0).view();
    if (!is_given) return false;
    verifier_ = security::ManifestVerifier::from_verified_root(*root);
    // A fetch has at least one stage, so a root that contains the object is received in it.
    if (!verifier_ || verifier_->object_within_root() ||
        use_root(*root).status != OperationStatus::kDone) {
        verifier_.reset();
        return false;
    }
    spec_.memory->set_root_proven();
    return true;
}

AnswerCheck ObjectFetch::receive_root(const wire::DataView& root) {
    verifier_ = security::ManifestVerifier::from_verified_root(root);
    return use_root(root);
}

AnswerCheck ObjectFetch::use_root(const wire::DataView& root) {
    if (!verifier_ || !verifier_->extent()) return malformed(root.name());
    if (spec_.root_only) {
        spec_.memory->keep_root(root.whole());
        return {};
    }
    const auto& extent = *verifier_->extent();
    const auto& within = verifier_->object_within_root();
    if (within && within->size != extent.object_bytes) return malformed(root.name());
    return make_room(extent, root.whole());
}

AnswerCheck ObjectFetch::make_room(const security::ObjectExtent& extent, wire::ByteView root) {
    segmentation_ = {1, extent.object_bytes, extent.segment_bytes};
    if (extent.segment_bytes == 0 || segmentation_.segments() != verifier_->tree().segments() ||
        segmentation_.segments() > kMaxSegments) {
        return malformed(security::manifest_name(spec_.object, 0).view());
    }
    if (spec_.memory->reserve(extent.object_bytes, root, verifier_->object_within_root())) {
        return {};
    }
    const std::string size = std::to_string(extent.object_bytes);
    if (spec_.memory->is_given()) {
        return {OperationStatus::kMismatch, uri() + " has " + size +
                                                " bytes, and the memory for it " +
                                                std::to_string(spec_.memory->bytes().size())};
    }
    return {OperationStatus::kAborted, "no memory for the " + size + " bytes of " + uri()};
}

std::string ObjectFetch::missing() const {
    if (verifier_) return {};
    const std::string right =
        "no manifest of " + uri() + " signed by " + spec_.signer.view().to_uri() + " came";
    if (forged_roots_ == 0) return right;
    return right + ", but " + std::to_string(forged_roots_) + " of other signers (the last by " +
           last_forger_ + "), which were dropped";
}

}  // namespace innet
