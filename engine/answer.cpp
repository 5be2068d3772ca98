#include "engine/answer.h"

#include <limits>

namespace orrery {

AnswerRules::AnswerRules(const Model& model, int capacity_tokens)
    : tokenizer(model.tokenizer),
      capacity(capacity_tokens),
      is_end(size_t(model.config.vocab), false),
      all_but_end((size_t(model.config.vocab) + 63) / 64, ~uint64_t(0)) {
    for (const TokenId token : tokenizer->end_tokens())
        if (token >= 0 && token < model.config.vocab) {
            is_end[size_t(token)] = true;
            all_but_end[size_t(token) / 64] &= ~(uint64_t(1) << (token % 64));
        }
}

Answer::Answer(const AnswerRules& rules, const Request& request, uint64_t seed, int sample)
    : rules_(rules),
      sampler_(request.sampling, seed, uint32_t(sample)),
      detokenizer_(rules.tokenizer),
      stops_(request.stop),
      prompt_tokens_(int(request.prompt.size())),
      max_tokens_(request.max_tokens < 0 ? std::numeric_limits<int>::max() : request.max_tokens),
      min_tokens_(request.min_tokens),
      ignore_eos_(request.ignore_eos) {}

Sample Answer::draw(std::span<const float> logits, const std::vector<TokenId>& tokens) {
    const bool may_end = ignore_eos_ || tokens_ >= min_tokens_;
    return sampler_.draw(logits, tokens, size_t(prompt_tokens_),
                         may_end ? std::span<const uint64_t>()
                                 : std::span<const uint64_t>(rules_.all_but_end));
}

Answer::Piece Answer::take(TokenId token, int length) {
    Piece piece = judge(token, length);
    tokens_ += 1;
    shown_ += piece.text.size();
    return piece;
}

/// What comes of the next token.
Answer::Piece Answer::judge(TokenId token, int length) {
    const int tokens = tokens_ + 1;
    if (!ignore_eos_ && rules_.is_end[size_t(token)])
        return {flush(), FinishReason::stop_token};

    StopStrings::Result shown = stops_.add(detokenizer_.add(token), tokens < min_tokens_);
    if (shown.stopped)
        return {std::move(shown.text), FinishReason::stop_string};

    const FinishReason full = tokens >= max_tokens_       ? FinishReason::length
                              : length >= rules_.capacity ? FinishReason::context_full
                                                          : FinishReason::none;
    if (full != FinishReason::none)
        shown.text += flush();
    return {std::move(shown.text), full};
}

std::string Answer::flush() {
    // A character that was never finished becomes U+FFFD, which cannot complete a stop string that ends the
    // answer anew: the answer has ended.
    std::string text = stops_.add(detokenizer_.finish(), true).text;
    text += stops_.finish();
    return text;
}

std::string Answer::rest(const std::vector<TokenId>& tokens) const {
    if (tokens_ == 0)
        return {};
    const auto first = tokens.begin() + prompt_tokens_;
    return rules_.tokenizer->decode({first, first + tokens_}, false).substr(shown_);
}

} // namespace orrery
