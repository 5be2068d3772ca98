// Text of a growing sequence, without ever a part of a character.
#pragma once

#include "engine/request.h"

#include <memory>
#include <string>

namespace orrery {

class Tokenizer;

/// Takes one token after the other and gives whole UTF-8 characters: bytes that begin a character wait
/// until the rest has come. All text it has given, with finish(), is exactly Tokenizer::decode() of all
/// tokens; where they continue a text, it is what these tokens add to the decoded text.
class Detokenizer {
public:
    /// `continues`: text stands before the first token, so that a space at its beginning is one of the text.
    explicit Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool keep_special = false,
                         bool continues = false);

    /// Text that is complete now; may be empty.
    std::string add(TokenId token);

    /// What is left at the end; bytes of a character that never became whole give U+FFFD.
    std::string finish();

private:
    std::string take_complete(bool at_end);

    std::shared_ptr<const Tokenizer> tokenizer_;
    bool keep_special_;
    bool at_start_; ///< of the whole text
    std::string pending_;
};

} // namespace orrery
