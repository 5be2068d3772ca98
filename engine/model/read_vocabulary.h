// The vocabulary and the tokenizer of a model file.
#pragma once

#include "engine/model/gguf.h"
#include "engine/text/vocabulary.h"

#include <memory>

namespace orrery {

/// Reads the fields `tokenizer.ggml.*`. Throws Error with the file, the field and the value.
Vocabulary read_vocabulary(const GgufFile& file);

/// Throws Error where the vocabulary is missing, inconsistent or of a kind that is not known.
std::shared_ptr<const Tokenizer> read_tokenizer(const GgufFile& file);

} // namespace orrery
