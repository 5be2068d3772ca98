#include "tests/support/engine_run.h"

#include "engine/model/gguf.h"
#include "engine/model/read_vocabulary.h"
#include "kernels/error.h"
#include "kernels/make_backend.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace orrery::test {

namespace {

bool same_bits(float a, float b) {
    return std::memcmp(&a, &b, sizeof a) == 0;
}

bool same_tops(const std::vector<TokenLogprob>& a, const std::vector<TokenLogprob>& b) {
    return std::ranges::equal(a, b, [](const TokenLogprob& x, const TokenLogprob& y) {
        return x.token == y.token && same_bits(x.logprob, y.logprob);
    });
}

/// The first of `count` tokens that is another one, or has other log-probabilities; `count` where none is.
size_t first_difference(const Answered& a, const Answered& b, size_t count) {
    for (size_t i = 0; i < count; ++i)
        if (a.tokens[i] != b.tokens[i] || !same_bits(a.logprobs[i], b.logprobs[i]) ||
            !same_tops(a.top_logprobs[i], b.top_logprobs[i]))
            return i;
    return count;
}

std::string name(const std::pair<RequestId, int>& key) {
    return "request " + std::to_string(key.first) + " sample " + std::to_string(key.second);
}

} // namespace

bool Answered::operator==(const Answered& other) const {
    return difference(other, *this).empty();
}

bool Answered::begins(const Answered& other) const {
    return tokens.size() <= other.tokens.size() &&
           first_difference(*this, other, tokens.size()) == tokens.size();
}

std::string difference(const Answered& expected, const Answered& found) {
    const size_t both = std::min(expected.tokens.size(), found.tokens.size());
    const size_t at = first_difference(expected, found, both);
    const std::string where = "token " + std::to_string(at);
    if (at < both) {
        char text[100];
        if (expected.tokens[at] != found.tokens[at])
            return where + " is " + std::to_string(found.tokens[at]) + " and not " +
                   std::to_string(expected.tokens[at]);
        if (!same_bits(expected.logprobs[at], found.logprobs[at])) {
            std::snprintf(text, sizeof text, " has the log-probability %a and not %a",
                          double(found.logprobs[at]), double(expected.logprobs[at]));
            return where + text;
        }
        return where + " comes with other likeliest tokens";
    }
    if (found.tokens.size() != expected.tokens.size())
        return "it has " + std::to_string(found.tokens.size()) + " tokens and not " +
               std::to_string(expected.tokens.size());
    if (found.text != expected.text)
        return "its text is '" + found.text + "' and not '" + expected.text + "'";
    if (found.finish != expected.finish)
        return std::string("it ends with ") + finish_reason_name(found.finish) + " and not with " +
               finish_reason_name(expected.finish);
    return {};
}

std::string Answered::describe() const {
    std::string out = std::to_string(tokens.size()) + " tokens:";
    for (const TokenId token : tokens)
        out += ' ' + std::to_string(token);
    return out + ", " + finish_reason_name(finish) + (error.empty() ? "" : " (" + error + ")");
}

void Collector::expect(RequestId id, const Request& request) {
    requests_[id] = request;
    open_[id] = std::max(request.samples, 1);
}

void Collector::take(std::vector<TokenDelta>& deltas) {
    for (TokenDelta& delta : deltas) {
        const std::pair key(delta.request, delta.sample);
        const auto request = requests_.find(delta.request);
        if (request == requests_.end() || delta.sample < 0 ||
            delta.sample >= std::max(request->second.samples, 1))
            throw Error(name(key) + " was never asked for");
        Answered& answer = answers_[key];
        if (answer.finish != FinishReason::none)
            throw Error(name(key) + " goes on after its end");
        if (!delta.token && delta.text.empty() && delta.finish == FinishReason::none)
            throw Error(name(key) + ": a delta says nothing");
        if (delta.token) {
            answer.tokens.push_back(*delta.token);
            answer.logprobs.push_back(delta.logprob);
            answer.top_logprobs.push_back(std::move(delta.top_logprobs));
        }
        answer.text += delta.text;
        answer.finish = delta.finish;
        answer.seed = delta.seed;
        if (delta.finish != FinishReason::none) {
            answer.error = delta.error;
            answer.usage = delta.usage;
            answer.timings = delta.timings;
            if (--open_.at(delta.request) == 0)
                ended_.push_back(delta.request);
        }
    }
    deltas.clear();
}

void Collector::check_complete(const Model& model) const {
    for (const auto& [id, request] : requests_)
        check_complete(id, model);
}

void Collector::check_complete(RequestId id, const Model& model) const {
    const Request& request = requests_.at(id);
    for (int sample = 0; sample < std::max(request.samples, 1); ++sample) {
        const std::pair key(id, sample);
        const auto found = answers_.find(key);
        if (found == answers_.end() || found->second.finish == FinishReason::none)
            throw Error(name(key) + " has not ended");
        const Answered& answer = found->second;
        const bool failed = answer.finish == FinishReason::rejected || answer.finish == FinishReason::error;
        if (failed == answer.error.empty())
            throw Error(name(key) + " ends with " + finish_reason_name(answer.finish) + " and says '" +
                        answer.error + "'");
        if (answer.usage.completion_tokens != int(answer.tokens.size()))
            throw Error(name(key) + " counts its tokens wrongly");

        std::vector<TokenId> spoken = answer.tokens;
        if (answer.finish == FinishReason::stop_token)
            spoken.pop_back();
        std::string text = model.tokenizer->decode(spoken, false);
        if (answer.finish == FinishReason::stop_string) {
            // The text ends where the first stop string begins that counts. Those before min_tokens do not.
            if (!text.starts_with(answer.text))
                throw Error(name(key) + ": '" + answer.text + "' is not the beginning of '" + text + "'");
            const std::string rest = text.substr(answer.text.size());
            if (std::ranges::none_of(request.stop,
                                     [&](const std::string& stop) { return rest.starts_with(stop); }))
                throw Error(name(key) + " stopped without a stop string: '" + rest + "' comes next");
        } else if (text != answer.text) {
            throw Error(name(key) + " streamed '" + answer.text + "', but its tokens say '" + text + "'");
        }
    }
}

std::vector<Collector::Complete> Collector::take_complete(const Model& model) {
    std::vector<Complete> complete;
    for (const RequestId id : ended_) {
        check_complete(id, model);
        Complete& one = complete.emplace_back();
        one.id = id;
        const auto begin = answers_.lower_bound({id, 0}), end = answers_.lower_bound({id + 1, 0});
        for (auto answer = begin; answer != end; ++answer)
            one.answers.push_back(std::move(answer->second));
        answers_.erase(begin, end);
        one.request = std::move(requests_.at(id));
        requests_.erase(id);
        open_.erase(id);
    }
    ended_.clear();
    return complete;
}

Answers run_all(Engine& engine, const std::vector<Request>& requests, const std::function<void(int)>& between,
                const std::function<void(const StepReport&)>& watch) {
    Collector collector;
    for (size_t i = 0; i < requests.size(); ++i) {
        collector.expect(i + 1, requests[i]);
        engine.add(i + 1, requests[i]);
    }
    std::vector<TokenDelta> deltas;
    for (int step = 0; !engine.idle(); ++step) {
        if (step > 100'000)
            throw Error("the engine does not come to an end");
        if (between)
            between(step);
        const StepReport& report = engine.step(deltas);
        if (watch)
            watch(report);
        collector.take(deltas);
    }
    collector.check_complete(engine.model());
    return collector.answers();
}

std::shared_ptr<Model> load_tiny(std::unique_ptr<kernels::Backend> backend, const TinyModelOptions& options) {
    auto model = std::make_shared<Model>();
    model->path = tiny_model(options);
    model->file = GgufFile::open(model->path);
    model->config = read_config(*model->file);
    model->tokenizer = read_tokenizer(*model->file);
    model->backend = std::move(backend);
    model->weights = std::make_shared<ModelWeights>(model->file, model->config, *model->backend);
    return model;
}

std::shared_ptr<Model> load_tiny(kernels::BackendKind backend, int threads, const TinyModelOptions& options) {
    return load_tiny(kernels::make_backend(backend, threads), options);
}

} // namespace orrery::test
