// The strip of pictures at the bottom of the window: what each step cost, how the blocks are used, what was
// in the batch.
//
// Contract with the window:
//   The strip draws StepReports and nothing else. addReports() brings those of one frame, oldest first (it is
//   connected to EngineSession::reports); `dropped` steps are missing before them. It may be called with
//   thousands; the strip keeps a bounded window of them. It repaints by the session's frame clock.
//
// Painting shares the machine with the engine: the strip measures what a repaint takes and leaves nineteen
// times as long between two, so that it never costs more than a twentieth of one core.
#pragma once

#include "ui/charts/step_chart.h"
#include "ui/engine_session.h"

#include <QWidget>

namespace orrery::ui {

class ChartStrip : public QWidget {
    Q_OBJECT

public:
    explicit ChartStrip(EngineSession* session, QWidget* parent = nullptr);

    StepChart* stepCost() const { return charts_[0]; }
    StepChart* kvBlocks() const { return charts_[1]; }
    StepChart* batch() const { return charts_[2]; }

public slots:
    void addReports(const std::vector<orrery::StepReport>& reports, quint64 dropped);
    /// Forgets all reports: another model came.
    void clear();

protected:
    void showEvent(QShowEvent* event) override;
    void hideEvent(QHideEvent* event) override;

private:
    void onTick(qint64 now_ns);
    void setStale(bool stale);
    void refresh();

    StepHistory history_;
    std::array<StepChart*, 3> charts_{};
    EngineSession* session_;
    bool stale_ = false;      ///< there are reports that are not drawn
    qint64 refreshed_ns_ = 0; ///< when the pictures were refreshed last, by the clock
    qint64 cost_ns_ = 0;      ///< what the last repaint of all pictures took
};

} // namespace orrery::ui
