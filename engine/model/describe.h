// What is in a model file, for people and programs.
#pragma once

#include <nlohmann/json.hpp>

namespace orrery {

class GgufFile;

/// An object with these fields:
///   file, file_bytes, gguf_version, architecture, name, parameters (weights in all)
///   metadata   every field; a list of more than eight values as {count, first: [eight values]}
///   sizes      per weight format: {tensors, parameters, bytes}
///   memory     weight_bytes and, where this program can run the model: context_tokens, and per kind of
///              cache (f32, f16, int8, int4) kv_bytes_per_token and kv_bytes for the whole context
///   cannot_run the reason where it cannot
///   tensors    [{name, type, shape (outermost first), bytes}]
/// `context_tokens` = 0 takes the context that the model was trained for. Text that is no UTF-8 has U+FFFD
/// in its place.
nlohmann::ordered_json describe(const GgufFile& file, int context_tokens = 0);

} // namespace orrery
