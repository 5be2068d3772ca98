// score: the logits that a model gives to every position of a sequence, or how well it predicts a text.
#include "app/cli/base64.h"
#include "app/cli/verbs.h"
#include "engine/platform/file.h"
#include "kernels/error.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace orrery::cli {

namespace {

/// −ln softmax(logits)[token]
double negative_log_likelihood(std::span<const float> logits, TokenId token) {
    const double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float logit : logits)
        sum += std::exp(logit - largest);
    return std::log(sum) + largest - logits[static_cast<size_t>(token)];
}

/// Of all tokens but the first, in nats.
double mean_nll(std::span<const float> logits, const std::vector<TokenId>& ids, size_t vocab) {
    double total = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i)
        total += negative_log_likelihood(logits.subspan(i * vocab, vocab), ids[i + 1]);
    return total / double(ids.size() - 1);
}

Json summary(std::span<const float> logits, const std::vector<TokenId>& ids, size_t vocab, size_t top) {
    const auto last = logits.last(vocab);
    std::vector<TokenId> order(vocab);
    std::iota(order.begin(), order.end(), 0);
    top = std::min(top, vocab);
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top), order.end(),
                      [&](TokenId a, TokenId b) {
                          const float x = last[static_cast<size_t>(a)];
                          const float y = last[static_cast<size_t>(b)];
                          return x != y ? x > y : a < b;
                      });
    order.resize(top);
    std::vector<float> values;
    for (const TokenId token : order)
        values.push_back(last[static_cast<size_t>(token)]);
    Json json = {{"top_ids", order}, {"top_logits", values}};
    if (ids.size() > 1)
        json["mean_nll"] = mean_nll(logits, ids, vocab);
    return json;
}

/// One text in one context.
int score_text(const Options& options, const std::string& file) {
    const std::string text = platform::read_whole_file(file);
    const std::shared_ptr<Model> model = load(options);
    const std::vector<TokenId> ids = model->tokenizer->encode(text, false, true);
    if (ids.size() < 2)
        throw Error("'" + file + "' is a text of " + std::to_string(ids.size()) +
                    " tokens: it needs 2, one to read and one to predict.");
    const std::vector<float> logits = make_engine(model, options)->score(ids);
    const double nll = mean_nll(logits, ids, size_t(model->config.vocab));
    print_line({{"tokens", ids.size()}, {"mean_nll", nll}, {"perplexity", std::exp(nll)}});
    return 0;
}

int score(const Options& options, int top) {
    const std::shared_ptr<Model> model = load(options);
    const auto engine = make_engine(model, options);
    const auto vocab = static_cast<size_t>(model->config.vocab);
    return answer_lines([&](const nlohmann::json& line, int number) -> Json {
        const std::vector<TokenId> ids = read_ids(line, number);
        const std::vector<float> logits = engine->score(ids);
        if (top > 0)
            return summary(logits, ids, vocab, static_cast<size_t>(top));
        return {{"logits_shape", {ids.size(), vocab}},
                {"logits_f32_le_base64", base64(std::as_bytes(std::span(logits)))}};
    });
}

} // namespace

void add_score(CLI::App& app, Options& options, Run& run) {
    auto* verb = app.add_subcommand("score", "Logits of every position of JSON lines of token ids");
    auto top = std::make_shared<int>(0);
    auto file = std::make_shared<std::string>();
    auto* top_option =
        verb->add_option("--top", *top,
                         "Only the N largest logits of the last position, and the mean negative "
                         "log-likelihood")
            ->check(CLI::Range(1, 1 << 24));
    verb->add_option(
            "--text", *file,
            "Read this file instead: its mean negative log-likelihood and perplexity, in one context")
        ->excludes(top_option);
    add_model_options(*verb, options);
    add_device_options(*verb, options);
    add_engine_options(*verb, options);
    verb->callback([&options, &run, top, file] {
        run = [&options, top, file] {
            return file->empty() ? score(options, *top) : score_text(options, *file);
        };
    });
}

} // namespace orrery::cli
