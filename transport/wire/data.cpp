#include "transport/wire/data.hpp"

#include "transport/wire/key_locator.hpp"
#include "transport/wire/milliseconds.hpp"

namespace innet::wire {

namespace {

/// Positions of the elements of Data, MetaInfo and SignatureInfo in the order of the specification;
/// 0 for unknown ones.
constexpr int data_position_of(std::uint32_t type) {
    switch (type) {
        case kName:
            return 1;
        case kMetaInfo:
            return 2;
        case kContent:
            return 3;
        case kSignatureInfo:
            return 4;
        case kSignatureValue:
            return 5;
        default:
            return 0;
    }
}

constexpr int meta_info_position_of(std::uint32_t type) {
    switch (type) {
        case kContentType:
            return 1;
        case kFreshnessPeriod:
            return 2;
        case kFinalBlockId:
            return 3;
        default:
            return 0;
    }
}

/// Elements of applications in MetaInfo; whatever their number, they are not for us to refuse.
constexpr bool is_application_meta(std::uint32_t type) { return type >= 128 && type <= 252; }

/// The value of a FinalBlockId is one component. Only a segment number matters here: `segment`
/// stays empty for any other component.
bool read_final_block_id(ByteView value, std::optional<std::uint64_t>& segment) {
    const auto component = read_only_element(value);
    if (!component || !NameView::parse(value)) return false;
    if (component->type == kSegmentComponent) segment = read_nonnegative(component->value);
    return true;
}

}  // namespace

bool DataView::read_meta_info(ByteView value) {
    int last_position = 0;
    for (Reader reader(value); !reader.empty();) {
        const auto element = reader.next();
        if (!element) return false;
        const int position = meta_info_position_of(element->type);
        if (position <= last_position) {
            if (element->type == kTensorElements) {
                tensor_elements_ = read_nonnegative(element->value);
            } else if (element->type == kTensorError) {
                tensor_error_ = read_nonnegative(element->value);
            } else if (element->type == kEarlierCalls) {
                earlier_calls_ = element->value;
            } else if (element->type == kSegmentsReceived) {
                segments_received_ = read_nonnegative(element->value);
            } else if (element->type == kSumCarry) {
                sum_carry_ = read_nonnegative(element->value);
            } else if (is_critical(element->type) && !is_application_meta(element->type)) {
                return false;
            }
            continue;
        }
        last_position = position;
        if (element->type == kFinalBlockId) {
            if (!read_final_block_id(element->value, final_segment_)) return false;
            continue;
        }
        const auto number = read_nonnegative(element->value);
        if (!number) return false;
        if (element->type == kContentType) {
            content_type_ = static_cast<ContentType>(*number);
        } else {
            freshness_ = duration_of_ms(*number);
        }
    }
    return true;
}

bool DataView::read_signature_info(ByteView value) {
    Reader reader(value);
    const auto type_element = reader.next();
    if (!type_element || type_element->type != kSignatureType) return false;
    const auto number = read_nonnegative(type_element->value);
    if (!number) return false;
    signature_type_ = static_cast<SignatureType>(*number);
    bool has_key_locator = false;
    while (!reader.empty()) {
        const auto element = reader.next();
        if (!element) return false;
        if (element->type == kKeyLocator && !has_key_locator) {
            has_key_locator = true;
            if (!read_key_locator(element->value, key_name_)) return false;
        } else if (is_critical(element->type) && element->type != kValidityPeriod) {
            return false;
        }
    }
    return true;
}

std::optional<DataView> DataView::parse(ByteView packet) {
    const auto data = read_only_element(packet);
    if (!data || data->type != kData) return std::nullopt;
    Reader reader(data->value);
    const auto name_element = reader.next();
    if (!name_element || name_element->type != kName) return std::nullopt;
    const auto checked = check_name(name_element->value);
    // A packet cannot contain its own digest: one that claims to would answer Interests for
    // another.
    if (!checked || checked->has_implicit_digest) return std::nullopt;

    DataView view;
    view.whole_ = packet;
    view.name_ = checked->name;
    int last_position = data_position_of(kName);
    bool has_signature_info = false;
    bool has_signature_value = false;
    while (!reader.empty()) {
        const ByteView rest = reader.rest();
        const auto element = reader.next();
        if (!element) return std::nullopt;
        const int position = data_position_of(element->type);
        if (position <= last_position) {
            // Unknown, repeated or out of order: section 1.3 has us skip it when it is not
            // critical.
            if (is_critical(element->type)) return std::nullopt;
            continue;
        }
        last_position = position;
        switch (element->type) {
            case kMetaInfo:
                if (!view.read_meta_info(element->value)) return std::nullopt;
                break;
            case kContent:
                view.content_ = element->value;
                break;
            case kSignatureInfo:
                if (!view.read_signature_info(element->value)) return std::nullopt;
                has_signature_info = true;
                break;
            default:
                view.signed_portion_ = data->value.first(data->value.size() - rest.size());
                view.signature_value_ = element->value;
                has_signature_value = true;
        }
    }
    if (!has_signature_info || !has_signature_value) return std::nullopt;
    return view;
}

std::optional<DataFrame> DataFrame::parse(const std::array<ByteView, 3>& parts) {
    const auto& [head, content, tail] = parts;
    if (!tail.empty()) return parse_around(head, content, tail);
    const auto view = DataView::parse(head);
    if (!view) return std::nullopt;
    DataFrame frame{
        view->name(), view->key_name(), {view->signed_portion()}, view->signature_value()};
    frame.signature_offset = head.size() - frame.signature_value.size();
    return frame;
}

std::optional<DataFrame> DataFrame::parse_around(ByteView head, ByteView content, ByteView tail) {
    ByteView value = head;
    const auto type = read_var_number(value);
    const auto size = read_var_number(value);
    if (type != kData || size != value.size() + content.size() + tail.size()) return std::nullopt;
    Reader before(value);
    const auto name = before.next();
    const auto checked = name && name->type == kName ? check_name(name->value) : std::nullopt;
    if (!checked) return std::nullopt;
    if (!before.empty() && before.rest().front() == kMetaInfo && !before.next())
        return std::nullopt;
    ByteView header = before.rest();
    if (read_var_number(header) != kContent || read_var_number(header) != content.size() ||
        !header.empty()) {
        return std::nullopt;
    }
    Reader after(tail);
    const auto info = after.next();
    DataView view;
    if (!info || info->type != kSignatureInfo || !view.read_signature_info(info->value)) {
        return std::nullopt;
    }
    const auto signature = read_only_element(after.rest());
    if (!signature || signature->type != kSignatureValue) return std::nullopt;
    DataFrame frame{
        checked->name, view.key_name(), {value, content, info->whole}, signature->value};
    frame.signature_offset =
        head.size() + content.size() + tail.size() - frame.signature_value.size();
    return frame;
}

namespace {

std::size_t nonnegative_element_size(std::uint32_t type, std::uint64_t number) {
    return element_size(type, nonnegative_size(number));
}

/// Sizes of the values of the nested elements, which must be known before their headers are
/// written.
struct DataSizes {
    std::size_t final_block_id = 0;
    std::size_t meta_info = 0;
    std::size_t key_locator = 0;
    std::size_t signature_info = 0;
    std::size_t data = 0;

    DataSizes(const DataFields& fields, std::size_t content_size, std::size_t signature_size) {
        meta_info = meta_info_size(fields);
        signature_info = signature_info_size(fields);
        data = element_size(kName, fields.name.value().size()) +
               (meta_info > 0 ? element_size(kMetaInfo, meta_info) : 0) +
               element_size(kContent, content_size) + element_size(kSignatureInfo, signature_info) +
               element_size(kSignatureValue, signature_size);
    }

  private:
    std::size_t meta_info_size(const DataFields& fields) {
        std::size_t size = 0;
        if (fields.content_type != ContentType::kBlob) {
            size += nonnegative_element_size(kContentType,
                                             static_cast<std::uint64_t>(fields.content_type));
        }
        if (fields.freshness > Duration::zero()) {
            size += nonnegative_element_size(kFreshnessPeriod, ms_of_duration(fields.freshness));
        }
        if (fields.final_segment) {
            final_block_id = nonnegative_element_size(kSegmentComponent, *fields.final_segment);
            size += element_size(kFinalBlockId, final_block_id);
        } else if (!fields.final_component.empty()) {
            size += element_size(kFinalBlockId, fields.final_component.size());
        }
        if (fields.tensor_elements) {
            size += nonnegative_element_size(kTensorElements, *fields.tensor_elements);
        }
        if (fields.tensor_error) {
            size += nonnegative_element_size(kTensorError,
                                             static_cast<std::uint64_t>(*fields.tensor_error));
        }
        if (!fields.earlier_calls.empty()) {
            size += element_size(kEarlierCalls, fields.earlier_calls.size());
        }
        if (fields.segments_received) {
            size += nonnegative_element_size(kSegmentsReceived, *fields.segments_received);
        }
        if (fields.sum_carry) size += nonnegative_element_size(kSumCarry, *fields.sum_carry);
        return size;
    }

    std::size_t signature_info_size(const DataFields& fields) {
        const std::size_t type_size = nonnegative_element_size(
            kSignatureType, static_cast<std::uint64_t>(fields.signature_type));
        const std::size_t size = type_size + fields.signature_extension.size();
        if (fields.key_name.empty()) return size;
        key_locator = element_size(kName, fields.key_name.value().size());
        return size + element_size(kKeyLocator, key_locator);
    }
};

void write_meta_info(Writer& writer, const DataFields& fields, const DataSizes& sizes) {
    if (sizes.meta_info == 0) return;
    writer.header(kMetaInfo, sizes.meta_info);
    if (fields.content_type != ContentType::kBlob) {
        writer.nonnegative_element(kContentType, static_cast<std::uint64_t>(fields.content_type));
    }
    if (fields.freshness > Duration::zero()) {
        writer.nonnegative_element(kFreshnessPeriod, ms_of_duration(fields.freshness));
    }
    if (fields.final_segment) {
        writer.header(kFinalBlockId, sizes.final_block_id);
        writer.nonnegative_element(kSegmentComponent, *fields.final_segment);
    } else if (!fields.final_component.empty()) {
        writer.element(kFinalBlockId, fields.final_component);
    }
    if (fields.tensor_elements)
        writer.nonnegative_element(kTensorElements, *fields.tensor_elements);
    if (fields.tensor_error) {
        writer.nonnegative_element(kTensorError, static_cast<std::uint64_t>(*fields.tensor_error));
    }
    if (!fields.earlier_calls.empty()) writer.element(kEarlierCalls, fields.earlier_calls);
    if (fields.segments_received) {
        writer.nonnegative_element(kSegmentsReceived, *fields.segments_received);
    }
    if (fields.sum_carry) writer.nonnegative_element(kSumCarry, *fields.sum_carry);
}

void write_signature_info(Writer& writer, const DataFields& fields, const DataSizes& sizes) {
    writer.header(kSignatureInfo, sizes.signature_info);
    writer.nonnegative_element(kSignatureType, static_cast<std::uint64_t>(fields.signature_type));
    if (!fields.key_name.empty()) {
        writer.header(kKeyLocator, sizes.key_locator);
        writer.element(kName, fields.key_name.value());
    }
    writer.bytes(fields.signature_extension);
}

}  // namespace

std::size_t encoded_data_size(const DataFields& fields, std::size_t content_size,
                              std::size_t signature_size) {
    return element_size(kData, DataSizes(fields, content_size, signature_size).data);
}

DataLayout encode_data(const DataFields& fields, std::size_t content_size,
                       std::size_t signature_size, std::span<std::uint8_t> buffer) {
    const DataSizes sizes(fields, content_size, signature_size);
    Writer writer(buffer);
    DataLayout layout;
    writer.header(kData, sizes.data);
    layout.signed_offset = writer.size();
    writer.element(kName, fields.name.value());
    write_meta_info(writer, fields, sizes);
    writer.header(kContent, content_size);
    layout.content_offset = writer.size();
    writer.reserve(content_size);
    write_signature_info(writer, fields, sizes);
    layout.signed_size = writer.size() - layout.signed_offset;
    writer.header(kSignatureValue, signature_size);
    layout.signature_offset = writer.size();
    layout.signature_size = signature_size;
    writer.reserve(signature_size);
    if (!writer.ok()) return {};
    layout.size = writer.size();
    return layout;
}

}  // namespace innet::wire
