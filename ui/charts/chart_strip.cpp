#include "ui/charts/chart_strip.h"

#include "ui/format.h"
#include "ui/theme.h"

#include <QLabel>
#include <QVBoxLayout>

namespace orrery::ui {

ChartStrip::ChartStrip(EngineSession* session, QWidget* parent) : QWidget(parent), label_(new QLabel) {
    setObjectName(QStringLiteral("chartStrip"));
    auto* column = new QVBoxLayout(this);
    column->setContentsMargins(theme::space4, theme::space3, theme::space4, theme::space3);
    column->addWidget(label_);
    connect(session, &EngineSession::reports, this, &ChartStrip::addReports);
    connect(session, &EngineSession::modelLoaded, this, &ChartStrip::clear);
    clear();
}

void ChartStrip::setFrameClock(FrameClock*) {}

void ChartStrip::addReports(const std::vector<StepReport>& reports, quint64 dropped) {
    steps_ += reports.size() + dropped;
    label_->setText(tr("%1 steps").arg(format::count(qint64(steps_))));
}

void ChartStrip::clear() {
    steps_ = 0;
    label_->setText(tr("No step has run yet."));
}

} // namespace orrery::ui
