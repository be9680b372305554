#include "transport/security/manifest.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "transport/security/ed25519.hpp"

namespace innet::security {

namespace {

constexpr std::string_view kManifestKeyword = "manifest";

/// Number of `<prefix>/seg=<number>`; nothing for any other name.
std::optional<std::uint64_t> segment_number(wire::NameView name, wire::NameView prefix) {
    if (name.empty() || name.parent() != prefix) return std::nullopt;
    const wire::Element last = name.last_component();
    if (last.type != wire::kSegmentComponent) return std::nullopt;
    return wire::read_nonnegative(last.value);
}

/// Whether the bytes end like a manifest's name: with the keyword component and a segment number of
/// 1, 2, 4 or 8 bytes.
bool ends_like_manifest(wire::ByteView name) {
    constexpr std::size_t kHeader = 2;
    constexpr std::size_t kKeyword = kHeader + kManifestKeyword.size();
    return std::ranges::any_of(std::array<std::uint8_t, 4>{1, 2, 4, 8}, [&](std::uint8_t size) {
        if (name.size() < kKeyword + kHeader + size) return false;
        const auto number = name.last(kHeader + size);
        if (number[0] != wire::kSegmentComponent || number[1] != size) return false;
        const auto keyword = name.first(name.size() - number.size()).last(kManifestKeyword.size());
        return std::ranges::equal(keyword, kManifestKeyword);
    });
}

wire::Name manifest_prefix(const wire::Name& object) {
    wire::Name name = object;
    return name.append(
        wire::kKeywordComponent,
        {reinterpret_cast<const std::uint8_t*>(kManifestKeyword.data()), kManifestKeyword.size()});
}

/// The parts of a manifest's Content; the numbers are in a root only.
struct ManifestContent {
    std::optional<std::uint64_t> segments;
    std::optional<std::uint64_t> fan_out;
    std::optional<std::uint64_t> object_bytes;
    std::optional<std::uint64_t> segment_bytes;
    wire::ByteView digests;
    std::optional<wire::ByteView> object;
    wire::ByteView tags;

    std::optional<std::uint64_t>* number_of(std::uint32_t type) {
        switch (type) {
            case wire::kManifestSegments:
                return &segments;
            case wire::kManifestFanOut:
                return &fan_out;
            case wire::kManifestObjectBytes:
                return &object_bytes;
            case wire::kManifestSegmentBytes:
                return &segment_bytes;
            default:
                return nullptr;
        }
    }
};

constexpr int position_of(std::uint32_t type) {
    switch (type) {
        case wire::kManifestSegments:
            return 1;
        case wire::kManifestFanOut:
            return 2;
        case wire::kManifestObjectBytes:
            return 3;
        case wire::kManifestSegmentBytes:
            return 4;
        case wire::kManifestDigests:
            return 5;
        case wire::kManifestObject:
            return 6;
        case wire::kManifestTags:
            return 7;
        default:
            return 0;
    }
}

std::optional<ManifestContent> parse_content(const wire::DataView& manifest) {
    if (manifest.content_type() != wire::ContentType::kManifest) return std::nullopt;
    ManifestContent content;
    int last_position = 0;
    for (wire::Reader reader(manifest.content()); !reader.empty();) {
        const auto element = reader.next();
        if (!element) return std::nullopt;
        const int position = position_of(element->type);
        if (position <= last_position) {
            if (wire::is_critical(element->type)) return std::nullopt;
            continue;
        }
        last_position = position;
        if (element->type == wire::kManifestDigests) {
            content.digests = element->value;
            continue;
        }
        if (element->type == wire::kManifestObject) {
            content.object = element->value;
            continue;
        }
        if (element->type == wire::kManifestTags) {
            content.tags = element->value;
            continue;
        }
        const auto number = wire::read_nonnegative(element->value);
        if (!number) return std::nullopt;
        *content.number_of(element->type) = number;
    }
    return content;
}

bool is_zero(wire::ByteView bytes) {
    return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
}

/// Zero bytes in place of Ed25519 signatures of a key.
class DraftSigner final : public Signer {
  public:
    explicit DraftSigner(const Signer& signer) : signer_(signer) {}

    wire::SignatureType type() const override { return signer_.type(); }
    wire::NameView key_name() const override { return signer_.key_name(); }
    std::size_t signature_size() const override { return signer_.signature_size(); }
    bool sign(wire::ByteView, std::span<std::uint8_t> signature) override {
        std::ranges::fill(signature, std::uint8_t{0});
        return true;
    }

  private:
    const Signer& signer_;
};

}  // namespace

/// Writes one manifest after the other, the lowest level first.
class ManifestWriter {
  public:
    ManifestWriter(const wire::Name& object, const ManifestTree& tree,
                   const std::optional<ObjectExtent>& extent,
                   const std::optional<wire::ByteView>& object_bytes,
                   std::span<const SegmentTag> tags, SegmentTagger* tagger, PacketPool& pool)
        : object_(object),
          object_bytes_(object_bytes),
          tags_(tree.manifests() == 1 ? tags : std::span<const SegmentTag>()),
          tagger_(tagger),
          pool_(pool),
          manifests_(tree.manifests()) {
        root_numbers_ = {{wire::kManifestSegments, tree.segments()},
                         {wire::kManifestFanOut, tree.fan_out()}};
        if (!extent) return;
        root_numbers_.push_back({wire::kManifestObjectBytes, extent->object_bytes});
        root_numbers_.push_back({wire::kManifestSegmentBytes, extent->segment_bytes});
    }

    /// An empty PacketRef when the packet is too large or the signer can sign no more.
    PacketRef write(std::uint64_t manifest, std::span<const Sha256Digest> digests, Signer& signer) {
        const wire::Name name = manifest_name(object_, manifest);
        wire::DataFields fields;
        fields.name = name.view();
        fields.content_type = wire::ContentType::kManifest;
        fields.final_segment = manifests_ - 1;
        fields.signature_type = signer.type();
        fields.key_name = signer.key_name();
        const std::size_t content_size = size_of_content(manifest, digests.size());
        PacketRef packet =
            pool_.allocate(wire::encoded_data_size(fields, content_size, signer.signature_size()));
        const auto bytes = packet.writable();
        const auto layout = wire::encode_data(fields, content_size, signer.signature_size(), bytes);
        if (layout.size == 0) return {};
        const auto content = bytes.subspan(layout.content_offset, content_size);
        write_content(manifest, digests, content);
        if (manifest == 0 && tagger_ != nullptr) write_root_tag(name.view(), content);
        const bool is_signed =
            signer.sign(bytes.subspan(layout.signed_offset, layout.signed_size),
                        bytes.subspan(layout.signature_offset, layout.signature_size));
        return is_signed ? packet : PacketRef();
    }

  private:
    std::size_t size_of_content(std::uint64_t manifest, std::size_t digests) const {
        std::size_t size = wire::element_size(wire::kManifestDigests, digests * kSha256Size);
        if (manifest != 0) return size;
        for (const RootNumber& number : root_numbers_) {
            size += wire::element_size(number.type, wire::nonnegative_size(number.value));
        }
        if (object_bytes_) size += wire::element_size(wire::kManifestObject, object_bytes_->size());
        if (!tags_.empty()) size += wire::element_size(wire::kManifestTags, tags_.size_bytes());
        if (tagger_ != nullptr) size += kRootTagElementBytes;
        return size;
    }

    void write_content(std::uint64_t manifest, std::span<const Sha256Digest> digests,
                       std::span<std::uint8_t> content) const {
        wire::Writer writer(content);
        if (manifest == 0) {
            for (const RootNumber& number : root_numbers_) {
                writer.nonnegative_element(number.type, number.value);
            }
        }
        writer.header(wire::kManifestDigests, digests.size() * kSha256Size);
        for (const Sha256Digest& digest : digests) writer.bytes(digest);
        if (manifest == 0 && object_bytes_) writer.element(wire::kManifestObject, *object_bytes_);
        if (tags_.empty()) return;
        writer.header(wire::kManifestTags, tags_.size_bytes());
        for (const SegmentTag& tag : tags_) writer.bytes(tag);
    }

    /// Of all that is in the content already, at its end.
    void write_root_tag(wire::NameView name, std::span<std::uint8_t> content) const {
        const auto before = content.first(content.size() - kRootTagElementBytes);
        wire::Writer writer(content.last(kRootTagElementBytes));
        writer.element(wire::kManifestRootTag, tagger_->tag(SegmentTagger::of_root(name, before)));
    }

    struct RootNumber {
        std::uint32_t type = 0;
        std::uint64_t value = 0;
    };

    const wire::Name& object_;
    std::optional<wire::ByteView> object_bytes_;
    std::span<const SegmentTag> tags_;
    SegmentTagger* tagger_;
    PacketPool& pool_;
    std::uint64_t manifests_;
    std::vector<RootNumber> root_numbers_;
};

wire::Name manifest_name(const wire::Name& object, std::uint64_t manifest) {
    return manifest_prefix(object).append_number(wire::kSegmentComponent, manifest);
}

bool is_manifest(wire::NameView name) {
    return ends_like_manifest(name.value()) &&
           name.last_component().type == wire::kSegmentComponent &&
           is_manifest_prefix(name.parent());
}

bool is_root_manifest(wire::NameView name) {
    return is_manifest(name) && wire::read_nonnegative(name.last_component().value) == 0;
}

bool is_manifest_prefix(wire::NameView name) {
    const wire::Element last = name.last_component();
    return last.type == wire::kKeywordComponent && std::ranges::equal(last.value, kManifestKeyword);
}

bool has_root_tag(const wire::DataView& root, SegmentTagger& tagger) {
    const wire::ByteView content = root.content();
    if (content.size() < kRootTagElementBytes) return false;
    const std::size_t before = content.size() - kRootTagElementBytes;
    const auto element = wire::Reader(content.subspan(before)).next();
    if (!element || element->type != wire::kManifestRootTag) return false;
    if (element->value.size() != kSegmentTagSize) return false;
    SegmentTag tag;
    std::ranges::copy(element->value, tag.begin());
    return tagger.holds(SegmentTagger::of_root(root.name(), content.first(before)), tag);
}

bool is_draft(const wire::DataView& root) {
    return root.content_type() == wire::ContentType::kManifest &&
           root.signature_type() == wire::SignatureType::kEd25519 &&
           root.signature_value().size() == kEd25519SignatureSize &&
           is_zero(root.signature_value());
}

PacketRef complete_draft(const wire::DataView& draft, Signer& signer, PacketPool& pool) {
    const bool is_its_key =
        signer.type() == draft.signature_type() && signer.key_name() == draft.key_name();
    PacketRef root = is_its_key ? pool.copy_of(draft.whole()) : PacketRef();
    if (!root) return {};
    const wire::ByteView signature = draft.signature_value();
    const auto place = static_cast<std::size_t>(signature.data() - draft.whole().data());
    const auto made = root.writable().subspan(place, signature.size());
    return signer.sign(draft.signed_portion(), made) ? root : PacketRef();
}

ManifestBuilder::ManifestBuilder(wire::Name object, std::uint64_t fan_out)
    : object_(std::move(object)), fan_out_(fan_out) {}

std::optional<ManifestBuilder::Levels> ManifestBuilder::build_levels(
    ManifestWriter& writer, const ManifestTree& tree) const {
    const auto null_signer = make_null_signer();
    Sha256 sha256;
    Levels levels{std::vector<PacketRef>(tree.manifests()), {}};
    std::vector<Sha256Digest> manifest_digests(levels.manifests.size());

    // From the last to the root: children precede the manifest that lists them. The children of one
    // manifest are adjacent, and those of the manifest before it directly precede them.
    std::span<const Sha256Digest> segments_left(digests_);
    std::span<const Sha256Digest> manifests_left(manifest_digests);
    for (std::size_t i = levels.manifests.size(); i-- > 0;) {
        auto& left = i >= tree.first_leaf() ? segments_left : manifests_left;
        const auto children = left.last(tree.children_of(i));
        left = left.first(left.size() - children.size());
        if (i == 0) {
            levels.listed_by_root.assign(children.begin(), children.end());
            break;
        }
        levels.manifests[i] = writer.write(i, children, *null_signer);
        if (!levels.manifests[i]) return std::nullopt;
        manifest_digests[i] = sha256.digest(levels.manifests[i].bytes());
    }
    return levels;
}

std::optional<std::vector<PacketRef>> ManifestBuilder::build(PacketPool& pool,
                                                             Signer& root_signer) const {
    const auto tree = ManifestTree::over(digests_.size(), fan_out_);
    if (!tree) return std::nullopt;
    ManifestWriter writer(object_, *tree, extent_, object_bytes_, tags_, tagger_, pool);
    auto levels = build_levels(writer, *tree);
    if (!levels) return std::nullopt;
    DraftSigner draft_signer(root_signer);
    Signer& signer = is_draft_ ? static_cast<Signer&>(draft_signer) : root_signer;
    levels->manifests[0] = writer.write(0, levels->listed_by_root, signer);
    if (!levels->manifests[0]) return std::nullopt;
    return std::move(levels->manifests);
}

std::optional<std::vector<PacketRef>> ManifestBuilder::build_below(
    const PacketRef& root, std::span<const Sha256Digest> listed, PacketPool& pool) const {
    const auto tree = ManifestTree::over(digests_.size(), fan_out_);
    if (!tree) return std::nullopt;
    ManifestWriter writer(object_, *tree, extent_, object_bytes_, tags_, tagger_, pool);
    auto levels = build_levels(writer, *tree);
    if (!levels || !std::ranges::equal(levels->listed_by_root, listed)) return std::nullopt;
    levels->manifests[0] = root;
    return std::move(levels->manifests);
}

ManifestVerifier::ManifestVerifier(wire::Name object, ManifestTree tree)
    : object_(std::move(object)), tree_(std::move(tree)) {}

std::optional<ManifestVerifier> ManifestVerifier::from_verified_root(const wire::DataView& root) {
    if (!is_root_manifest(root.name())) return std::nullopt;
    if (root.name().last_component().value.size() != 1) return std::nullopt;  // as manifest_name
    const auto content = parse_content(root);
    if (!content || !content->segments || !content->fan_out) return std::nullopt;
    const auto tree = ManifestTree::over(*content->segments, *content->fan_out);
    if (!tree) return std::nullopt;
    ManifestVerifier verifier(wire::Name(root.name().parent().parent()), *tree);
    if (!verifier.store(0, content->digests)) return std::nullopt;
    if (content->object_bytes && content->segment_bytes) {
        verifier.extent_ = ObjectExtent{*content->object_bytes, *content->segment_bytes};
    }
    if (content->object) {
        const auto offset = content->object->data() - root.whole().data();
        verifier.object_within_root_ = {static_cast<std::size_t>(offset), content->object->size()};
    }
    if (!verifier.store_tags(content->tags)) return std::nullopt;
    verifier.has_digests_ = verifier.tags_.empty() || !is_zero(content->digests);
    return verifier;
}

bool ManifestVerifier::store_tags(wire::ByteView tags) {
    if (tags.empty()) return true;
    if (tree_.manifests() != 1 || tags.size() != tree_.segments() * kSegmentTagSize) return false;
    tags_.resize(static_cast<std::size_t>(tree_.segments()));
    for (std::size_t i = 0; i < tags_.size(); ++i) {
        std::ranges::copy(tags.subspan(i * kSegmentTagSize, kSegmentTagSize), tags_[i].begin());
    }
    return true;
}

bool ManifestVerifier::store(std::uint64_t manifest, wire::ByteView digests) {
    if (digests.size() % kSha256Size != 0) return false;
    if (digests.size() / kSha256Size != tree_.children_of(manifest)) return false;
    auto& stored = digests_[manifest];
    stored.resize(digests.size() / kSha256Size);
    for (std::size_t i = 0; i < stored.size(); ++i) {
        const auto digest = digests.subspan(i * kSha256Size, kSha256Size);
        std::copy(digest.begin(), digest.end(), stored[i].begin());
    }
    return true;
}

const std::vector<Sha256Digest>* ManifestVerifier::digests_of(std::uint64_t manifest) const {
    const auto found = digests_.find(manifest);
    return found == digests_.end() ? nullptr : &found->second;
}

std::vector<Sha256Digest> ManifestVerifier::listed_by(std::uint64_t first,
                                                      std::uint64_t count) const {
    std::vector<Sha256Digest> listed;
    for (std::uint64_t manifest = first; manifest < first + count; ++manifest) {
        const auto& digests = digests_.at(manifest);
        listed.insert(listed.end(), digests.begin(), digests.end());
    }
    return listed;
}

bool ManifestVerifier::add_manifest(const wire::DataView& manifest) {
    const auto number = segment_number(manifest.name(), manifest_prefix(object_).view());
    if (!number || *number == 0 || *number >= tree_.manifests()) return false;
    const ManifestSlot slot = tree_.slot_of_manifest(*number);
    const auto* listed = digests_of(slot.manifest);
    if (listed == nullptr) return false;
    if ((*listed)[slot.position] != sha256_.digest(manifest.whole())) return false;
    const auto content = parse_content(manifest);
    return content && store(*number, content->digests);
}

std::optional<std::uint64_t> ManifestVerifier::missing_manifest(std::uint64_t segment) const {
    if (segment >= tree_.segments()) return std::nullopt;
    std::uint64_t needed = tree_.slot_of_segment(segment).manifest;
    if (digests_of(needed) != nullptr) return std::nullopt;
    while (true) {  // ends at the root, which is always there
        const std::uint64_t parent = tree_.slot_of_manifest(needed).manifest;
        if (digests_of(parent) != nullptr) return needed;
        needed = parent;
    }
}

SegmentVerdict ManifestVerifier::check(std::uint64_t segment, const Sha256Digest& digest) const {
    if (segment >= tree_.segments()) return SegmentVerdict::kInvalid;
    const ManifestSlot slot = tree_.slot_of_segment(segment);
    const auto* listed = digests_of(slot.manifest);
    if (listed == nullptr) return SegmentVerdict::kUnknown;
    return (*listed)[slot.position] == digest ? SegmentVerdict::kValid : SegmentVerdict::kInvalid;
}

SegmentVerdict ManifestVerifier::check(const wire::DataView& packet) {
    const auto segment = segment_number(packet.name(), object_.view());
    if (!segment) return SegmentVerdict::kInvalid;
    return check(*segment, sha256_.digest(packet.whole()));
}

}  // namespace innet::security
