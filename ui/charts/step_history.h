// The last steps of the engine, as many as pictures can show.
//
// A picture never draws more than a few hundred columns, however many steps it spans: a view of the history
// joins neighbouring steps into columns of equal size. Columns are cut at multiples of their size, so that a
// column's content does not change while the window slides over it.
#pragma once

#include "engine/step_report.h"

#include <QtGlobal>

#include <array>
#include <deque>
#include <vector>

namespace orrery::ui {

/// What the pictures draw of one step.
struct StepSample {
    quint64 number = 0;
    // Nanoseconds by phase.
    qint64 schedule_ns = 0;
    qint64 prepare_ns = 0;
    qint64 forward_ns = 0;
    qint64 sample_ns = 0;
    qint64 publish_ns = 0;
    // Tokens by kind.
    int prefill = 0;
    int decode = 0;
    int speculative = 0;
    int recomputed = 0;
    // Blocks by state.
    int held = 0;
    int cached = 0;
    int free = 0;

    static StepSample from(const orrery::StepReport& report);
};

/// A value of a step that a picture draws.
using StepValue = double (*)(const StepSample&);

/// Neighbouring steps joined: the mean of each drawn value, and the largest sum of them that a single step
/// had.
struct StepColumn {
    static constexpr int max_values = 6;
    quint64 first = 0; ///< number of the first step
    quint64 last = 0;  ///< number of the last step
    int steps = 0;     ///< steps that are known (reports may have been dropped)
    std::array<double, max_values> mean{};
    double peak = 0;

    double total() const;
};

class StepHistory {
public:
    /// Steps that are kept: at 100 steps a second the last ten minutes.
    static constexpr size_t capacity = 1 << 16;

    void add(const orrery::StepReport& report);
    void clear();

    bool empty() const { return samples_.empty(); }
    size_t size() const { return samples_.size(); }
    quint64 lastNumber() const { return samples_.empty() ? 0 : samples_.back().number; }

    /// The last `steps` steps (by number; dropped ones count) in at most `columns` columns, oldest first. The
    /// newest column may still be growing. Takes at most StepColumn::max_values values.
    std::vector<StepColumn> view(quint64 steps, int columns, const std::vector<StepValue>& values) const;

private:
    std::deque<StepSample> samples_;
};

} // namespace orrery::ui
