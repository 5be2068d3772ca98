// One answer: its tokens drawn from logits, turned into text, and ended at the right place.
#pragma once

#include "engine/model/model.h"
#include "engine/request.h"
#include "engine/sample/sampler.h"
#include "engine/text/detokenizer.h"
#include "engine/text/stop_strings.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace orrery {

/// What is the same for all answers of an engine.
struct AnswerRules {
    explicit AnswerRules(const Model& model, int capacity);

    std::shared_ptr<const Tokenizer> tokenizer;
    int capacity = 0;                  ///< tokens of the longest sequence
    std::vector<bool> is_end;          ///< [vocab]: the token ends an answer
    std::vector<uint64_t> all_but_end; ///< mask of the sampler: an end token cannot be drawn
};

class Answer {
public:
    Answer(const AnswerRules& rules, const Request& request, uint64_t seed, int sample);

    /// The next draw as a query to the device, where the device can do it (see Sampler::query).
    std::optional<kernels::SampleQuery> query(const std::vector<TokenId>& tokens,
                                              std::vector<LogitChange>& changes);
    /// The token that the device has drawn. Throws Error where none can be drawn.
    Sample accept(const kernels::SampleResult& result, std::span<const kernels::TopToken> top) const;
    /// Draws the next token of a sequence from its logits, [vocab]. Throws Error where none can be drawn.
    Sample draw(std::span<const float> logits, const std::vector<TokenId>& tokens);

    struct Piece {
        std::string text; ///< can be shown now
        FinishReason finish = FinishReason::none;
    };
    /// Takes the token that was drawn, with which the sequence is `length` tokens long. With the end comes
    /// all text that was held back, but for what belongs to a stop string; an end token has no text. Where
    /// it throws, the token does not belong to the answer, which can only be ended.
    Piece take(TokenId token, int length);

    /// The text of all tokens that were taken which has not been given out yet: the answer ends here for
    /// another reason. `tokens` is the sequence. Changes nothing, and is right after whatever has failed.
    std::string rest(const std::vector<TokenId>& tokens) const;

    void retune(const SamplingParams& params) { sampler_.retune(params); }
    int tokens() const { return tokens_; }
    uint64_t seed() const { return sampler_.seed(); }

private:
    bool may_end() const { return ignore_eos_ || tokens_ >= min_tokens_; }
    Piece next_piece(TokenId token, int length);
    std::string flush();

    const AnswerRules& rules_;
    bool continues_; ///< the prompt has text, and the answer goes on with it
    Sampler sampler_;
    Detokenizer detokenizer_;
    StopStrings stops_;
    int prompt_tokens_;
    int max_tokens_;
    int min_tokens_;
    bool ignore_eos_;
    int tokens_ = 0;   ///< taken so far
    size_t shown_ = 0; ///< bytes of text given out
};

} // namespace orrery
