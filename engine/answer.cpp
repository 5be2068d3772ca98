#include "engine/answer.h"

#include <algorithm>
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

namespace {

/// Whether text of the prompt stands before the answer.
bool continues_text(const Tokenizer& tokenizer, const Request& request) {
    return !request.is_reply &&
           std::any_of(request.prompt.rbegin(), request.prompt.rend(),
                       [&](TokenId token) { return !tokenizer.bytes(token, false).empty(); });
}

} // namespace

Answer::Answer(const AnswerRules& rules, const Request& request, uint64_t seed, int sample)
    : rules_(rules),
      continues_(continues_text(*rules.tokenizer, request)),
      sampler_(request.sampling, seed, uint32_t(sample)),
      detokenizer_(rules.tokenizer, false, continues_),
      stops_(request.stop),
      prompt_tokens_(int(request.prompt.size())),
      max_tokens_(request.max_tokens < 0 ? std::numeric_limits<int>::max() : request.max_tokens),
      min_tokens_(request.min_tokens),
      ignore_eos_(request.ignore_eos) {}

std::optional<kernels::SampleQuery> Answer::query(const std::vector<TokenId>& tokens,
                                                  std::vector<LogitChange>& changes) {
    if (!may_end())
        return std::nullopt; // end tokens are masked
    return sampler_.query(tokens, size_t(prompt_tokens_), rules_.is_end.size(), changes);
}

Sample Answer::accept(const kernels::SampleResult& result, std::span<const kernels::TopToken> top) const {
    return sampler_.accept(result, top, rules_.is_end.size());
}

Sample Answer::draw(std::span<const float> logits, const std::vector<TokenId>& tokens) {
    return sampler_.draw(logits, tokens, size_t(prompt_tokens_),
                         may_end() ? std::span<const uint64_t>()
                                   : std::span<const uint64_t>(rules_.all_but_end));
}

Answer::Piece Answer::take(TokenId token, int length) {
    Piece piece = next_piece(token, length);
    tokens_ += 1;
    shown_ += piece.text.size();
    return piece;
}

/// The text that the next token adds, and whether the answer ends with it.
Answer::Piece Answer::next_piece(TokenId token, int length) {
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
    Detokenizer detokenizer(rules_.tokenizer, false, continues_);
    std::string text;
    for (int i = 0; i < tokens_; ++i)
        text += detokenizer.add(tokens[size_t(prompt_tokens_ + i)]);
    text += detokenizer.finish();
    return text.substr(shown_);
}

} // namespace orrery
