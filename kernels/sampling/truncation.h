// Stages that drop candidates. Each works on the distribution that the stages before it have left.
//
// A sum or ratio of probabilities that falls short of its limit by no more than the rounding of the limit
// itself, a float, has reached it: top_p = 0.6 keeps six of ten equally likely tokens.
#pragma once

#include "kernels/sampling/candidates.h"

#include <utility>
#include <vector>

namespace orrery::kernels {

/// Keeps logits within `n` standard deviations of the largest (Tang et al. 2024).
void keep_top_n_sigma(CandidateSet& set, float n);

/// Keeps the smallest set of the likeliest whose probability reaches `p`; 0 keeps one, 1 all (Holtzman et al.
/// 2020).
void keep_top_p(CandidateSet& set, float p);

/// Drops candidates less likely than `p` times the likeliest (Nguyen et al. 2024).
void keep_min_p(CandidateSet& set, float p);

/// Drops all but the least likely of the top choices, those with probability `threshold` or more, where there
/// are two of them at least (XTC, "exclude top choices", P. E. Weidmann 2024). Whether it happens at all
/// (`xtc_probability`) has been decided before.
void exclude_top_choices(CandidateSet& set, float threshold);

/// Locally typical sampling (Meister et al. 2023): keeps the smallest set of the candidates whose surprise is
/// nearest to the distribution's entropy whose probability reaches `p`. Of two that are equally near, the
/// likelier goes first, then the smaller token.
class TypicalStage {
public:
    void keep(CandidateSet& set, float p);

private:
    std::vector<std::pair<double, uint32_t>> order_; ///< (distance from the entropy, place in the list)
    std::vector<uint32_t> places_;
};

/// Mirostat 2 (Basu et al. 2021, algorithm 2): drops candidates whose surprise is more than `mu` bits, but
/// for the likeliest, draws one at `u`, and moves `mu` towards the target by the error of the drawn token's
/// surprise. Surprise is that of the distribution as it was before candidates were dropped.
Candidate draw_mirostat(CandidateSet& set, float tau, float eta, float& mu, double u);

} // namespace orrery::kernels
