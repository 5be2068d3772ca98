#include "ui/charts/step_history.h"

#include <algorithm>
#include <numeric>

namespace orrery::ui {

StepSample StepSample::from(const StepReport& report) {
    StepSample sample;
    sample.number = report.number;
    sample.schedule_ns = report.schedule_ns;
    sample.prepare_ns = report.prepare_ns;
    sample.forward_ns = report.forward_ns;
    sample.sample_ns = report.sample_ns;
    sample.publish_ns = report.publish_ns;
    sample.prefill = report.prefill_tokens;
    sample.decode = report.decode_tokens;
    sample.speculative = report.speculative_tokens;
    sample.recomputed = report.recomputed_tokens;
    sample.held = report.blocks_held;
    sample.cached = report.blocks_cached;
    sample.free = report.blocks_free;
    return sample;
}

double StepColumn::total() const {
    return std::accumulate(mean.begin(), mean.end(), 0.0);
}

void StepHistory::add(const StepReport& report) {
    if (samples_.size() == capacity)
        samples_.pop_front();
    samples_.push_back(StepSample::from(report));
}

void StepHistory::clear() {
    samples_.clear();
}

std::vector<StepColumn> StepHistory::view(quint64 steps, int columns,
                                          const std::vector<StepValue>& values) const {
    Q_ASSERT(values.size() <= StepColumn::max_values);
    std::vector<StepColumn> result;
    if (samples_.empty() || columns < 1)
        return result;
    const quint64 last = samples_.back().number;
    const quint64 begin = last >= steps ? last - steps + 1 : 0;
    // A window of n wide columns touches up to n + 1 of them, for they stand at multiples of their width.
    const quint64 room = quint64(std::max(1, columns - 1));
    const quint64 width = steps <= quint64(columns) ? 1 : (steps + room - 1) / room;

    const auto first =
        std::lower_bound(samples_.begin(), samples_.end(), begin,
                         [](const StepSample& s, quint64 number) { return s.number < number; });
    for (auto sample = first; sample != samples_.end(); ++sample) {
        if (result.empty() || sample->number / width != result.back().first / width) {
            result.emplace_back();
            result.back().first = sample->number;
        }
        StepColumn& column = result.back();
        column.last = sample->number;
        ++column.steps;
        double total = 0;
        for (size_t i = 0; i < values.size(); ++i) {
            const double value = values[i](*sample);
            column.mean[i] += value;
            total += value;
        }
        column.peak = std::max(column.peak, total);
    }
    for (StepColumn& column : result)
        for (double& value : column.mean)
            value /= column.steps;
    return result;
}

} // namespace orrery::ui
