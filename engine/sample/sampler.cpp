#include "engine/sample/sampler.h"

#include "engine/parameter_table.h"
#include "kernels/error.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace orrery {

using kernels::Candidate;
using kernels::CandidateSet;

namespace {

/// What a token's random numbers are for.
enum Purpose : uint32_t { which_token, whether_xtc };

constexpr size_t traced_tokens = 100;

[[noreturn]] void throw_no_candidate(size_t vocabulary) {
    throw Error("No token can be drawn: all " + std::to_string(vocabulary) +
                " logits are −∞ or not numbers.");
}

bool drops_candidates(SamplerStage stage) {
    return stage != SamplerStage::penalties && stage != SamplerStage::dry &&
           stage != SamplerStage::temperature;
}

} // namespace

/// Writes down what becomes of a few tokens at points of the chain.
class Sampler::Recorder {
public:
    Recorder(CandidateSet& set, std::vector<StageTrace>& trace) : set_(set), trace_(trace) {}

    void follow(TokenId token) {
        if (std::ranges::find(tokens_, token) == tokens_.end())
            tokens_.push_back(token);
    }

    /// Follows those that are the likeliest now.
    void follow_top() {
        for (const Candidate& candidate : set_.top(traced_tokens))
            follow(candidate.token);
    }

    void record(const char* stage) {
        StageTrace& trace = trace_.emplace_back();
        trace.stage = stage;
        trace.left = set_.left();
        for (const TokenId token : tokens_)
            trace.candidates.emplace_back(token, float(std::exp(set_.log_probability_of(token))));
        std::ranges::sort(trace.candidates, [](const auto& a, const auto& b) {
            return a.second > b.second || (a.second == b.second && a.first < b.first);
        });
    }

private:
    CandidateSet& set_;
    std::vector<StageTrace>& trace_;
    std::vector<TokenId> tokens_;
};

Sampler::Sampler(SamplingParams params, uint64_t seed, uint32_t sample_index)
    : params_(std::move(params)),
      seed_(params_.seed.value_or(seed)),
      sample_index_(sample_index),
      mirostat_mu_(2.0f * params_.mirostat_tau) {
    validate(params_);
}

void Sampler::retune(const SamplingParams& params) {
    validate(params);
    SamplingParams fresh = params; // where that fails, nothing is half changed
    if (params_.mirostat == 0 && params.mirostat != 0)
        mirostat_mu_ = 2.0f * params.mirostat_tau;
    params_ = std::move(fresh);
}

bool Sampler::runs(SamplerStage stage) const {
    const SamplingParams& p = params_;
    if (drops_candidates(stage) && (p.mirostat != 0 || p.temperature == 0.0f))
        return false;
    switch (stage) {
    case SamplerStage::penalties:
        return p.frequency_penalty != 0.0f || p.presence_penalty != 0.0f ||
               (p.repetition_penalty != 1.0f && p.penalty_range != 0);
    case SamplerStage::dry:
        return p.dry_multiplier > 0.0f && p.dry_range != 0;
    case SamplerStage::top_n_sigma:
        return p.top_n_sigma > 0.0f;
    case SamplerStage::top_k:
        return p.top_k > 0;
    case SamplerStage::typical:
        return p.typical_p < 1.0f;
    case SamplerStage::top_p:
        return p.top_p < 1.0f;
    case SamplerStage::min_p:
        return p.min_p > 0.0f;
    case SamplerStage::xtc:
        return p.xtc_probability > 0.0f;
    case SamplerStage::temperature:
        return p.temperature != 0.0f && p.temperature != 1.0f;
    }
    return false;
}

void Sampler::run_stage(SamplerStage stage, const Input& input) {
    switch (stage) {
    case SamplerStage::penalties:
        set_.apply(penalties_.repetition(params_, input.tokens, input.prompt_tokens, input.logits.size()));
        break;
    case SamplerStage::dry:
        set_.apply(penalties_.dry(params_, input.tokens));
        break;
    case SamplerStage::top_n_sigma:
        kernels::keep_top_n_sigma(set_, params_.top_n_sigma);
        break;
    case SamplerStage::top_k:
        set_.keep_top(size_t(params_.top_k));
        break;
    case SamplerStage::typical:
        typical_.keep(set_, params_.typical_p);
        break;
    case SamplerStage::top_p:
        kernels::keep_top_p(set_, params_.top_p);
        break;
    case SamplerStage::min_p:
        kernels::keep_min_p(set_, params_.min_p);
        break;
    case SamplerStage::xtc:
        if (uniform(seed_, sample_index_, uint32_t(input.tokens.size()), whether_xtc) <
            params_.xtc_probability)
            kernels::exclude_top_choices(set_, params_.xtc_threshold);
        break;
    case SamplerStage::temperature:
        set_.apply_temperature(params_.temperature);
        break;
    }
}

bool Sampler::changes_logits(const Input& input) const {
    return !params_.logit_bias.empty() || !input.mask.empty();
}

void Sampler::begin(const Input& input) {
    set_.reset(input.logits);
    if (!params_.logit_bias.empty()) {
        bias_.clear();
        for (const auto& [token, bias] : params_.logit_bias) {
            if (size_t(token) >= input.logits.size())
                throw Error("logit_bias names token " + std::to_string(token) + ", but the vocabulary has " +
                            std::to_string(input.logits.size()) + " tokens.");
            bias_.push_back({token, 1.0, -double(bias)});
        }
        set_.apply(bias_);
    }
    if (!input.mask.empty())
        set_.restrict_to(input.mask);
    if (!set_.prepare())
        input.mask.empty() ? throw_no_candidate(input.logits.size())
                           : throw Error("No token can be drawn: the mask leaves no token whose logit is "
                                         "above −∞.");
}

Candidate Sampler::run(const Input& input, float& mirostat_mu, Recorder* recorder) {
    const auto record = [&](const char* stage) {
        if (recorder != nullptr)
            recorder->record(stage);
    };

    begin(input);
    if (changes_logits(input))
        record("bias and mask");

    for (const SamplerStage stage : params_.order) {
        if (!runs(stage))
            continue;
        run_stage(stage, input);
        record(sampler_stage_name(stage));
    }

    if (params_.temperature == 0.0f) {
        set_.keep_top(1);
        record("greedy");
        return set_.best();
    }
    const double u = uniform(seed_, sample_index_, uint32_t(input.tokens.size()), which_token);
    if (params_.mirostat == 0)
        return set_.draw(u);
    const Candidate drawn =
        kernels::draw_mirostat(set_, params_.mirostat_tau, params_.mirostat_eta, mirostat_mu, u);
    record("mirostat");
    return drawn;
}

/// Whether the stages that run are those of the device, in its order.
bool Sampler::has_common_chain() const {
    if (!params_.logit_bias.empty() || params_.trace || params_.mirostat != 0)
        return false;
    // Penalties and DRY are both changes of logits, so the two may stand in either order.
    const auto place = [](SamplerStage stage) {
        switch (stage) {
        case SamplerStage::penalties:
        case SamplerStage::dry:
            return 1;
        case SamplerStage::top_k:
            return 2;
        case SamplerStage::top_p:
            return 3;
        case SamplerStage::min_p:
            return 4;
        case SamplerStage::temperature:
            return 5;
        default:
            return 0;
        }
    };
    int last = 0;
    for (const SamplerStage stage : params_.order) {
        if (!runs(stage))
            continue;
        // Where the likeliest token is taken, only changes of logits run.
        const int here = place(stage);
        if (here == 0 || here < last || (here == last && here != 1))
            return false;
        last = here;
    }
    return true;
}

std::optional<kernels::SampleQuery> Sampler::query(std::span<const TokenId> tokens, size_t prompt_tokens,
                                                   size_t vocabulary, std::vector<LogitChange>& changes) {
    if (!has_common_chain())
        return std::nullopt;
    kernels::SampleQuery query;
    query.first_change = int32_t(changes.size());
    for (const SamplerStage stage : params_.order) {
        if (!runs(stage))
            continue;
        switch (stage) {
        case SamplerStage::penalties: {
            const auto added = penalties_.repetition(params_, tokens, prompt_tokens, vocabulary);
            changes.insert(changes.end(), added.begin(), added.end());
            break;
        }
        case SamplerStage::dry: {
            const auto added = penalties_.dry(params_, tokens);
            changes.insert(changes.end(), added.begin(), added.end());
            break;
        }
        case SamplerStage::top_k:
            query.top_k = params_.top_k;
            break;
        case SamplerStage::top_p:
            query.top_p = params_.top_p;
            break;
        case SamplerStage::min_p:
            query.min_p = params_.min_p;
            break;
        case SamplerStage::temperature:
        case SamplerStage::top_n_sigma:
        case SamplerStage::typical:
        case SamplerStage::xtc:
            break;
        }
    }
    query.changes = int32_t(changes.size()) - query.first_change;
    // A chain without the stage `temperature` draws at temperature 1.
    query.temperature = params_.temperature == 0.0f ? 0.0f
                        : std::ranges::find(params_.order, SamplerStage::temperature) == params_.order.end()
                            ? 1.0f
                            : params_.temperature;
    query.u = uniform(seed_, sample_index_, uint32_t(tokens.size()), which_token);
    query.logprobs = params_.logprobs;
    return query;
}

Sample Sampler::accept(const kernels::SampleResult& result, std::span<const kernels::TopToken> top,
                       size_t vocabulary) const {
    if (result.token < 0)
        throw_no_candidate(vocabulary);
    Sample sample;
    sample.token = result.token;
    sample.logprob = result.logprob;
    for (const kernels::TopToken& likely : top.first(size_t(std::max(params_.logprobs, 0))))
        if (likely.token >= 0)
            sample.top_logprobs.push_back({likely.token, likely.logprob});
    return sample;
}

Sample Sampler::draw(std::span<const float> logits, std::span<const TokenId> tokens, size_t prompt_tokens,
                     std::span<const uint64_t> mask) {
    const Input input = {logits, tokens, prompt_tokens, mask};
    const float mu = mirostat_mu_;
    Sample sample;
    sample.token = run(input, mirostat_mu_, nullptr).token;
    if (params_.logprobs >= 0)
        report_logprobs(input, sample);
    if (params_.trace)
        report_trace(input, mu, sample);
    return sample;
}

void Sampler::report_logprobs(const Input& input, Sample& sample) {
    set_.reset(input.logits);
    set_.prepare(); // it cannot be empty: no bias makes a token of −∞ possible
    sample.logprob = float(set_.log_probability_of(sample.token));
    if (params_.logprobs == 0)
        return;
    for (const Candidate& candidate : set_.top(size_t(params_.logprobs)))
        sample.top_logprobs.push_back({candidate.token, float(set_.log_probability(candidate.logit))});
}

void Sampler::report_trace(const Input& input, float mirostat_mu, Sample& sample) {
    // A draw is a pure function of its input, Mirostat's state and the seed: the chain can be run a second
    // time, knowing what it will draw, so that tracing costs nothing where it is off.
    Recorder recorder(set_, sample.trace);
    if (changes_logits(input)) {
        begin(input);
        recorder.follow_top();
    }
    set_.reset(input.logits);
    set_.prepare();
    recorder.follow_top();
    recorder.follow(sample.token);
    recorder.record("logits");
    run(input, mirostat_mu, &recorder);
}

} // namespace orrery
