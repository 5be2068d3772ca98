#include "ui/charts/step_plot.h"

#include "ui/theme.h"

#include <QChart>
#include <QElapsedTimer>
#include <QMouseEvent>

#include <cmath>
#include <limits>
#include <utility>

namespace orrery::ui {

namespace {
constexpr double nowhere = std::numeric_limits<double>::quiet_NaN();
} // namespace

StepPlot::StepPlot(QChart* chart, QWidget* parent) : QChartView(chart, parent), marker_(nowhere) {
    setMouseTracking(true);
    setFrameShape(QFrame::NoFrame);
    setFocusPolicy(Qt::NoFocus); // the picture around it takes the keys
    setViewportUpdateMode(QGraphicsView::MinimalViewportUpdate);
    setMinimumHeight(72);
}

void StepPlot::setMarker(double x) {
    marker_ = x;
    viewport()->update();
}

void StepPlot::setCorner(const QString& text) {
    corner_ = text;
    viewport()->update();
}

qint64 StepPlot::takePaintNs() {
    return std::exchange(paint_ns_, 0);
}

void StepPlot::paintEvent(QPaintEvent* event) {
    QElapsedTimer timer;
    timer.start();
    QChartView::paintEvent(event);
    paint_ns_ += timer.nsecsElapsed();
}

void StepPlot::mouseMoveEvent(QMouseEvent* event) {
    QChartView::mouseMoveEvent(event);
    const bool inside = chart()->plotArea().contains(event->position());
    emit hovered(inside ? chart()->mapToValue(event->position()).x() : nowhere);
}

void StepPlot::leaveEvent(QEvent* event) {
    QChartView::leaveEvent(event);
    emit hovered(nowhere);
}

void StepPlot::drawForeground(QPainter* painter, const QRectF& rect) {
    QChartView::drawForeground(painter, rect);
    const QRectF area = chart()->plotArea();
    if (!std::isnan(marker_)) {
        const double x = chart()->mapToPosition({marker_, 0}).x();
        if (x >= area.left() && x <= area.right()) {
            QPen pen(theme::color(theme::Meaning::Text, palette()));
            pen.setCosmetic(true);
            painter->setPen(pen);
            painter->drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()));
        }
    }
    if (!corner_.isEmpty()) {
        painter->setFont(theme::captionFont());
        painter->setPen(theme::color(theme::Meaning::FaintText, palette()));
        painter->drawText(area.adjusted(0, 2, -4, 0), Qt::AlignRight | Qt::AlignTop, corner_);
    }
}

} // namespace orrery::ui
