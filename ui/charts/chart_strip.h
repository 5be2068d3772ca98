// The strip of pictures at the bottom of the window: what each step cost, who holds the blocks, what was in
// the batch.
//
// Contract with the window:
//   The strip draws StepReports and nothing else. addReports() brings those of one frame, oldest first (it is
//   connected to EngineSession::reports, which the window's frame clock drives); `dropped` steps are missing
//   before them. It may be called with thousands; the strip keeps a bounded window of them.
//   setFrameClock() gives the clock on which it may repaint.
#pragma once

#include "ui/engine_session.h"

#include <QWidget>

class QLabel;

namespace orrery::ui {

class FrameClock;

class ChartStrip : public QWidget {
    Q_OBJECT

public:
    explicit ChartStrip(EngineSession* session, QWidget* parent = nullptr);

    void setFrameClock(FrameClock* clock);

public slots:
    void addReports(const std::vector<orrery::StepReport>& reports, quint64 dropped);
    /// Forgets all reports: another model came.
    void clear();

private:
    QLabel* label_;
    quint64 steps_ = 0;
};

} // namespace orrery::ui
