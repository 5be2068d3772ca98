#include "engine/text/detokenizer.h"

#include "engine/text/tokenizer.h"
#include "engine/text/utf8.h"

namespace orrery {

Detokenizer::Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool keep_special, bool continues)
    : tokenizer_(std::move(tokenizer)), keep_special_(keep_special), at_start_(!continues) {}

std::string Detokenizer::add(TokenId token) {
    std::string bytes = tokenizer_->bytes(token, keep_special_);
    if (at_start_ && !bytes.empty()) {
        at_start_ = false;
        if (tokenizer_->strips_leading_space() && bytes.front() == ' ')
            bytes.erase(0, 1);
    }
    pending_ += bytes;
    return take_complete(false);
}

std::string Detokenizer::finish() {
    return take_complete(true);
}

std::string Detokenizer::take_complete(bool at_end) {
    std::string out;
    pending_.erase(0, utf8::append_repaired(out, pending_, at_end));
    return out;
}

} // namespace orrery
