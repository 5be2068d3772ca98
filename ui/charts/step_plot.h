// The drawing area of a picture: a Qt Charts view that reports the column under the mouse.
#pragma once

#include <QChartView>

namespace orrery::ui {

class StepPlot : public QChartView {
    Q_OBJECT

public:
    explicit StepPlot(QChart* chart, QWidget* parent = nullptr);

    /// Draws an upright line at this value of the horizontal axis; NaN draws none.
    void setMarker(double x);
    /// A word in the corner; empty: none.
    void setCorner(const QString& text);
    /// Nanoseconds spent in painting since the last call.
    qint64 takePaintNs();

signals:
    /// The mouse is over this value of the horizontal axis; NaN: it has left.
    void hovered(double x);

protected:
    void paintEvent(QPaintEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void leaveEvent(QEvent* event) override;
    void drawForeground(QPainter* painter, const QRectF& rect) override;

private:
    double marker_;
    QString corner_;
    qint64 paint_ns_ = 0;
};

} // namespace orrery::ui
