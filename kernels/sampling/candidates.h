// The tokens that may still be drawn while the sampler chain narrows them down.
//
// Nothing is copied, sorted or exponentiated before a stage needs it. The set begins as a view of the model's
// own logits; it becomes a private copy where logits are changed, and a short list, likeliest first, where a
// stage keeps the best few. Each block of 64 logits knows its largest: the k-th largest of those bounds the
// k-th largest logit from below, so that the best few are found by looking into a few blocks only.
#pragma once

#include "kernels/operations.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace orrery::kernels {

struct Candidate {
    int32_t token = 0;
    float logit = 0.0f;
};

/// A set of candidates with their logits. Candidates are ordered by logit, larger first; equal ones by token,
/// smaller first. Probabilities are the softmax of logit / temperature over the candidates that are left.
/// A set of any size gives the same numbers every time: every sum has one fixed order.
class CandidateSet {
public:
    // 1. Begin.

    /// Makes room for sets of so many tokens: calls with no more of them take no memory, and cannot fail.
    /// Throws std::bad_alloc.
    void reserve(size_t vocabulary);
    /// All tokens of `logits` [vocab], temperature 1. A token of −∞ or NaN is no candidate. The logits must
    /// stay where they are while the set is used.
    void reset(std::span<const float> logits);
    /// Leaves the tokens whose bit in `mask` is 1, least significant first; those past its end go.
    void restrict_to(std::span<const uint64_t> mask);
    /// To be called once after the first changes and the mask. Where there are logits of +∞, their tokens
    /// stay alone, equally likely, and later changes pass them by. Returns false where no candidate is left.
    bool prepare();

    // 2. Change logits.

    /// Each token at most once, unless the set has not been prepared. Tokens outside of the vocabulary and
    /// those that are no candidates are passed by. A finite logit stays finite.
    void apply(std::span<const LogitChange> changes);
    /// Divides all logits by `temperature` > 0.
    void apply_temperature(double temperature) {
        temperature_ *= temperature;
        normaliser_ = 0.0;
    }

    // 3. Look. A Candidate's logit is in units of the temperature: what softmax takes is logit / temperature.

    size_t vocabulary() const { return values_.size(); }
    size_t left() const;
    double temperature() const { return temperature_; }
    float max_logit() const { return max_; }
    Candidate best() const;
    /// The n likeliest, or all where there are fewer; valid until the next call that is not const.
    std::span<const Candidate> top(size_t n);
    /// The sum of exp((logit − max_logit) / temperature) over the candidates.
    double normaliser();
    double probability(float logit);
    double log_probability(float logit);
    /// −∞ where the token is no candidate.
    double log_probability_of(int32_t token);
    /// Of the distribution, in nats.
    double entropy();
    /// Standard deviation of the logits (of the population), in the logits' own units.
    double logit_deviation() const;

    // 4. Leave fewer. At least one candidate always stays.

    void keep_top(size_t n);
    /// Drops candidates whose logit is less than `logit`, but for the likeliest.
    void drop_below(double logit);
    /// Drops the `n` likeliest, but for the last one left.
    void drop_top(size_t n);
    /// Keeps the candidates at these places of the last top(), in ascending order.
    void keep_places(std::span<const uint32_t> places);

    // 5. Draw.

    /// The candidate at `u` in [0, 1) of the cumulated distribution.
    Candidate draw(double u);

private:
    static constexpr size_t block = 64;

    float* writable();
    void update_maxima();
    void list_top(size_t n);
    float inverse_temperature() const;

    std::span<const float>
        values_; ///< [vocab], dense: the model's own or copy_; −∞ and NaN are no candidates
    std::vector<float> copy_;
    std::vector<float> maxima_;    ///< [blocks]
    std::vector<double> sums_;     ///< [blocks], of the last normaliser()
    std::vector<float> selection_; ///< scratch of list_top
    std::vector<Candidate> list_;  ///< sorted; the whole set while listed_, otherwise the answer of top()
    bool listed_ = false;
    bool infinite_ = false; ///< the candidates' logits were +∞ (0 stands for it)
    float max_ = 0.0f;
    double temperature_ = 1.0;
    double normaliser_ = 0.0; ///< 0: not known
};

} // namespace orrery::kernels
