// Sampling: each query is a row of logits of its own, answered by one thread.
#include "kernels/cpu/program.h"
#include "kernels/sampling/draw.h"

namespace orrery::kernels::cpu {

void Program::sample(const SampleArguments& a) {
    for (Thread& thread : threads_)
        thread.candidates.reserve(static_cast<size_t>(a.vocabulary));
    const SampleQuery* queries = arena_.put_all(a.queries).data();
    const LogitChange* changes = arena_.put_all(a.changes).data();
    record(&KernelProfile::sample_ns, static_cast<int64_t>(a.queries.size()), 1,
           [this, a, queries, changes](int64_t first, int64_t last, int thread) {
               CandidateSet& set = threads_[static_cast<size_t>(thread)].candidates;
               const auto max_logprobs = static_cast<size_t>(a.max_logprobs);
               for (int64_t i = first; i < last; ++i) {
                   const SampleQuery& query = queries[i];
                   const std::span top(a.top + static_cast<size_t>(i) * max_logprobs, max_logprobs);
                   a.results[i] = draw_sample(
                       query, {a.logits.row(query.row), static_cast<size_t>(a.vocabulary)},
                       {changes + query.first_change, static_cast<size_t>(query.changes)}, set, top);
               }
           });
}

} // namespace orrery::kernels::cpu
