#include "engine/model/describe.h"

#include "engine/model/config.h"
#include "engine/model/gguf.h"
#include "engine/platform/paths.h"
#include "engine/text/utf8.h"
#include "kernels/error.h"
#include "kernels/quant/kv_row.h"

#include <algorithm>
#include <array>

namespace orrery {

using nlohmann::ordered_json;

namespace {

constexpr size_t longest_list = 8;

ordered_json to_json(const std::string& text) {
    std::string repaired;
    utf8::append_repaired(repaired, text, true);
    return repaired;
}

template <typename T>
ordered_json to_json(const T& number) {
    return number;
}

struct ValueToJson {
    template <typename T>
    ordered_json operator()(const T& value) const {
        return to_json(value);
    }
    ordered_json operator()(const GgufValue::Array& array) const { return std::visit(*this, array); }
    template <typename T>
    ordered_json operator()(const std::vector<T>& values) const {
        ordered_json list = ordered_json::array();
        for (size_t i = 0; i < std::min(values.size(), longest_list); ++i)
            list.push_back(to_json(static_cast<const T&>(values[i])));
        if (values.size() <= longest_list)
            return list;
        return {{"count", values.size()}, {"first", std::move(list)}};
    }
};

ordered_json memory_plan(const ModelConfig& config, int context_tokens) {
    struct Kind {
        const char* name;
        kernels::KvType type;
    };
    constexpr std::array kinds = {Kind{"f32", kernels::KvType::f32}, Kind{"f16", kernels::KvType::f16},
                                  Kind{"int8", kernels::KvType::int8}, Kind{"int4", kernels::KvType::int4}};
    ordered_json per_token, whole;
    for (const auto& [name, type] : kinds) {
        uint64_t bytes = 0;
        for (const CacheShape& cache : config.caches)
            bytes += static_cast<uint64_t>(cache.layers) * static_cast<uint64_t>(cache.kv_heads) *
                     (kernels::row_bytes(type, static_cast<size_t>(cache.key_length)) +
                      kernels::row_bytes(type, static_cast<size_t>(cache.value_length)));
        per_token[name] = bytes;
        whole[name] = bytes * static_cast<uint64_t>(context_tokens);
    }
    return {{"context_tokens", context_tokens}, {"kv_bytes_per_token", per_token}, {"kv_bytes", whole}};
}

} // namespace

ordered_json describe(const GgufFile& file, int context_tokens) {
    struct Size {
        uint64_t tensors = 0, parameters = 0, bytes = 0;
    };
    std::map<kernels::TensorType, Size> sizes;
    Size all;
    ordered_json tensors = ordered_json::array();
    for (const GgufTensor& tensor : file.tensors()) {
        for (Size* size : {&sizes[tensor.type], &all}) {
            size->tensors += 1;
            size->parameters += static_cast<uint64_t>(tensor.elements());
            size->bytes += tensor.bytes.size();
        }
        tensors.push_back({{"name", tensor.name},
                           {"type", kernels::info(tensor.type).name},
                           {"shape", tensor.shape},
                           {"bytes", tensor.bytes.size()}});
    }
    ordered_json metadata = ordered_json::object(), by_type = ordered_json::object();
    for (const auto& [key, field] : file.metadata())
        metadata[key] = std::visit(ValueToJson{}, field.value);
    for (const auto& [type, size] : sizes)
        by_type[kernels::info(type).name] = {
            {"tensors", size.tensors}, {"parameters", size.parameters}, {"bytes", size.bytes}};

    const auto text = [&](const char* key) {
        const GgufValue* field = file.find(key);
        const auto* value = field ? std::get_if<std::string>(&field->value) : nullptr;
        return value ? to_json(*value) : ordered_json();
    };
    ordered_json out = {{"file", to_json(platform::to_utf8(file.path()))},
                        {"file_bytes", file.file_bytes()},
                        {"gguf_version", file.version()},
                        {"architecture", text("general.architecture")},
                        {"name", text("general.name")},
                        {"parameters", all.parameters},
                        {"metadata", std::move(metadata)},
                        {"sizes", std::move(by_type)},
                        {"memory", {{"weight_bytes", all.bytes}}}};
    try {
        const ModelConfig config = read_config(file);
        out["memory"].update(
            memory_plan(config, context_tokens > 0 ? context_tokens : config.context_length));
    } catch (const Error& error) {
        out["cannot_run"] = to_json(std::string(error.what()));
    }
    out["tensors"] = std::move(tensors);
    return out;
}

} // namespace orrery
