#include "tests/support/mixed_requests.h"

#include "tests/support/test_data.h"

#include <algorithm>

namespace orrery::test {

namespace {

/// Everything of a request but its prompt.
Request mixed_settings(Random& random, int vocab, int max_new_tokens, const std::vector<std::string>& stop) {
    Request request;
    request.max_tokens = random.between(1, max_new_tokens);
    request.ignore_eos = random.chance(0.7);
    request.min_tokens = random.chance(0.2) ? random.between(1, 10) : 0;
    if (random.chance(0.3))
        request.stop = stop;
    SamplingParams& p = request.sampling;
    p.seed = random.bits();
    p.logprobs = random.below(4);
    p.temperature = random.chance(0.25) ? 0.0f : float(random.between(1, 30)) / 10.0f;
    p.top_k = random.chance(0.5) ? 0 : random.between(1, 60);
    p.top_p = random.chance(0.5) ? 1.0f : 0.8f;
    p.min_p = random.chance(0.5) ? 0.0f : 0.02f;
    p.typical_p = random.chance(0.1) ? 0.9f : 1.0f;
    p.top_n_sigma = random.chance(0.1) ? 2.0f : 0.0f;
    p.repetition_penalty = random.chance(0.3) ? 1.3f : 1.0f;
    p.frequency_penalty = random.chance(0.3) ? 0.4f : 0.0f;
    p.presence_penalty = random.chance(0.3) ? 0.4f : 0.0f;
    p.dry_multiplier = random.chance(0.2) ? 0.8f : 0.0f;
    p.xtc_probability = random.chance(0.2) ? 0.5f : 0.0f;
    p.mirostat = random.chance(0.15) ? 2 : 0;
    if (random.chance(0.1))
        p.logit_bias = {{random.below(vocab), 6.0f}, {random.below(vocab), -6.0f}};
    if (random.chance(0.1))
        std::ranges::reverse(p.order);
    if (random.chance(0.2))
        request.samples = random.between(2, 4);
    if (random.chance(0.2))
        request.cache_salt = 1;
    request.priority = random.below(3);
    return request;
}

/// Prompts of real text.
class Library {
public:
    explicit Library(const Model& model) : model_(model) {
        for (const char* file :
             {"LICENSE", "README.md", "README.zh-CN.md", "engine/schedule/scheduler.cpp"}) {
            texts_.push_back(read_file(source_dir() / file));
            tokens_.push_back(model.tokenizer->encode(texts_.back(), false, false));
        }
    }

    std::vector<TokenId> passage(Random& random, int tokens) const {
        const std::vector<TokenId>& text = tokens_[size_t(random.below(int(tokens_.size())))];
        const int length = std::min(tokens, int(text.size()));
        const auto begin = text.begin() + random.between(0, int(text.size()) - length);
        return {begin, begin + length};
    }

    /// A document from its beginning on, and a passage as if it were a question.
    std::vector<TokenId> document(Random& random, int max_tokens) const {
        const std::vector<TokenId>& text = tokens_[size_t(random.below(int(tokens_.size())))];
        std::vector<TokenId> prompt(text.begin(),
                                    text.begin() + random.between(1, std::min(max_tokens, int(text.size()))));
        for (const TokenId token : passage(random, random.between(1, 20)))
            prompt.push_back(token);
        return prompt;
    }

    std::vector<TokenId> conversation(Random& random) const {
        if (!model_.chat_template)
            return document(random, 60);
        const std::string& text = texts_[size_t(random.below(2))]; // in English: it can be cut anywhere
        return model_.encode_chat(
            {{"system", "You are a patient librarian. Answer in one short sentence, and name the page."},
             {"user",
              text.substr(size_t(random.below(int(text.size()) - 400)), size_t(random.between(20, 400)))}});
    }

private:
    const Model& model_;
    std::vector<std::string> texts_;
    std::vector<std::vector<TokenId>> tokens_;
};

} // namespace

std::vector<Request> mixed_requests(Random& random, int count, int vocab) {
    std::vector<TokenId> common;
    for (int i = 0; i < 70; ++i)
        common.push_back(random.between(3, vocab - 1));
    std::vector<Request> requests;
    for (int i = 0; i < count; ++i) {
        Request request = mixed_settings(random, vocab, 24, {"th", "o"});
        if (random.chance(0.6))
            request.prompt.assign(common.begin(), common.begin() + random.between(1, int(common.size())));
        for (int n = random.chance(0.1) ? random.between(60, 120) : random.between(1, 20); n > 0; --n)
            request.prompt.push_back(random.between(0, vocab - 1));
        requests.push_back(std::move(request));
    }
    return requests;
}

std::vector<Request> text_requests(Random& random, int count, const Model& model, int longest_prompt) {
    const Library library(model);
    std::vector<Request> requests;
    for (int i = 0; i < count; ++i) {
        Request request =
            mixed_settings(random, model.config.vocab, longest_text_answer, {"\n\n", " the", "。"});
        if (random.chance(0.5)) // long answers press on a small pool
            request.max_tokens = longest_text_answer;
        // A model's time goes into the few long prompts.
        const int length = random.chance(0.3) ? longest_prompt : std::max(1, longest_prompt / 4);
        const int kind = random.below(100);
        if (i == 0)
            request.prompt = library.passage(random, 1);
        else if (i == 1)
            request.prompt = library.passage(random, longest_prompt);
        else if (kind < 25)
            request.prompt = library.passage(random, random.between(1, 20));
        else if (kind < 60)
            request.prompt = library.document(random, length);
        else if (kind < 85)
            request.prompt = library.conversation(random);
        else
            request.prompt = library.passage(random, random.between(1, length));
        request.prompt.resize(std::min(request.prompt.size(), size_t(longest_prompt)));
        // Blocks that end where the prompt ends are a case of their own.
        if (request.prompt.size() > 16 && random.chance(0.1))
            request.prompt.resize(request.prompt.size() / 16 * 16);
        requests.push_back(std::move(request));
    }
    return requests;
}

} // namespace orrery::test
