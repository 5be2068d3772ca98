#include "ui/charts/step_chart.h"

#include "ui/charts/step_columns_model.h"
#include "ui/charts/step_plot.h"
#include "ui/format.h"

#include <QAction>
#include <QAreaSeries>
#include <QChart>
#include <QContextMenuEvent>
#include <QElapsedTimer>
#include <QFileDialog>
#include <QGraphicsLayout>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLabel>
#include <QLineSeries>
#include <QMenu>
#include <QPainter>
#include <QSaveFile>
#include <QStackedLayout>
#include <QTableView>
#include <QToolButton>
#include <QValueAxis>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace orrery::ui {

namespace {

/// What a picture can span, steps.
constexpr std::array<quint64, 6> spans = {60, 240, 1'000, 4'000, 16'000, StepHistory::capacity};

/// The smallest of 1, 2, 4, 6 and 8 times a power of ten that is not below `value`: half of it is a plain
/// number, too.
double niceCeiling(double value) {
    if (!(value > 0))
        return 1;
    const double power = std::pow(10.0, std::floor(std::log10(value)));
    for (const double step : {1.0, 2.0, 4.0, 6.0, 8.0})
        if (value <= step * power * (1 + 1e-9))
            return step * power;
    return 10 * power;
}

QColor bandColor(const ChartBand& band, const QPalette& palette) {
    const QColor color = theme::color(band.color, palette);
    const QColor ground = theme::color(theme::Meaning::Raised, palette);
    const auto mix = [&](int a, int b) { return int(std::lround(b + (a - b) * band.shade)); };
    return QColor(mix(color.red(), ground.red()), mix(color.green(), ground.green()),
                  mix(color.blue(), ground.blue()));
}

/// A square of a colour; a ring where the band is hidden.
QIcon swatch(const QColor& color, bool filled, double ratio) {
    constexpr int size = 10;
    QPixmap pixmap(QSize(size, size) * ratio);
    pixmap.setDevicePixelRatio(ratio);
    pixmap.fill(Qt::transparent);
    QPainter painter(&pixmap);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(QPen(color, 1.5));
    painter.setBrush(filled ? QBrush(color) : QBrush(Qt::NoBrush));
    painter.drawRoundedRect(QRectF(1, 1, size - 2, size - 2), 2, 2);
    return QIcon(pixmap);
}

} // namespace

StepChart::StepChart(ChartSpec spec, const StepHistory* history, QWidget* parent)
    : QWidget(parent),
      spec_(std::move(spec)),
      history_(history),

      title_(new QLabel(spec_.title)),
      reading_(new QLabel),
      empty_(new QLabel(spec_.emptyText)),
      stack_(new QStackedLayout),
      chart_(new QChart),
      plot_(new StepPlot(chart_)),
      table_(new QTableView),
      xAxis_(new QValueAxis(chart_)),
      yAxis_(new QValueAxis(chart_)),
      peaks_(new QLineSeries(chart_)) {
    setObjectName(spec_.id);
    for (const ChartBand& band : spec_.bands)
        visible_.push_back(band.shown);
    setAccessibleName(spec_.title);
    setAccessibleDescription(tr("Arrow keys read the columns, T shows the table, Space holds the picture."));
    setFocusPolicy(Qt::StrongFocus);

    QStringList names;
    for (const ChartBand& band : spec_.bands)
        names << band.name;
    model_ = new StepColumnsModel(names, spec_.unit, this);
    table_->setModel(model_);
    table_->setAccessibleName(spec_.title);
    table_->verticalHeader()->hide();
    table_->verticalHeader()->setDefaultSectionSize(20);
    table_->horizontalHeader()->setSectionResizeMode(QHeaderView::Stretch);
    table_->setShowGrid(false);
    table_->setSelectionBehavior(QAbstractItemView::SelectRows);

    chart_->setMargins(QMargins());
    chart_->layout()->setContentsMargins(0, 0, 0, 0);
    chart_->setBackgroundRoundness(0);
    chart_->setBackgroundVisible(false);
    chart_->setAnimationOptions(QChart::NoAnimation);
    chart_->setLocalizeNumbers(true);
    chart_->legend()->hide();
    xAxis_->setLabelFormat(QStringLiteral("%.0f"));
    xAxis_->setTickCount(4);
    xAxis_->setGridLineVisible(false);
    yAxis_->setTickCount(3);
    chart_->addAxis(xAxis_, Qt::AlignBottom);
    chart_->addAxis(yAxis_, Qt::AlignLeft);
    for (size_t i = 0; i <= spec_.bands.size(); ++i)
        bounds_.push_back(new QLineSeries(chart_));
    for (size_t i = 0; i < spec_.bands.size(); ++i) {
        auto* area = new QAreaSeries(bounds_[i + 1], bounds_[i]);
        area->setPen(Qt::NoPen);
        chart_->addSeries(area);
        area->attachAxis(xAxis_);
        area->attachAxis(yAxis_);
        area->setVisible(visible_[i]);
        areas_.push_back(area);
    }
    chart_->addSeries(peaks_);
    peaks_->attachAxis(xAxis_);
    peaks_->attachAxis(yAxis_);

    empty_->setAlignment(Qt::AlignCenter);
    empty_->setWordWrap(true);
    reading_->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
    reading_->setTextInteractionFlags(Qt::NoTextInteraction);
    // The reading may be cut; it must never push the pictures apart.
    reading_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    title_->setBuddy(this);

    auto* head = new QHBoxLayout;
    head->setSpacing(theme::space2);
    head->addWidget(title_);
    head->addWidget(reading_, 1);
    auto* column = new QVBoxLayout(this);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(theme::space1);
    column->addLayout(head);
    stack_->addWidget(empty_);
    stack_->addWidget(plot_);
    stack_->addWidget(table_);
    column->addLayout(stack_, 1);
    buildLegend();
    column->addLayout([this] {
        auto* row = new QHBoxLayout;
        row->setSpacing(0);
        for (QToolButton* button : legend_)
            row->addWidget(button);
        row->addStretch(1);
        return row;
    }());

    connect(plot_, &StepPlot::hovered, this, [this](double x) {
        if (std::isnan(x) || columns_.empty())
            return setCursor(-1);
        const auto found =
            std::lower_bound(columns_.begin(), columns_.end(), x,
                             [](const StepColumn& c, double value) { return double(c.last) < value; });
        setCursor(
            int(std::min<std::ptrdiff_t>(found - columns_.begin(), std::ptrdiff_t(columns_.size()) - 1)));
    });
    applyColors();
    updateState();
}

void StepChart::buildLegend() {
    for (size_t i = 0; i < spec_.bands.size(); ++i) {
        auto* button = new QToolButton;
        button->setText(spec_.bands[i].name);
        button->setToolTip(spec_.bands[i].meaning);
        button->setAccessibleDescription(spec_.bands[i].meaning);
        button->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
        button->setIconSize(QSize(10, 10));
        button->setCheckable(true);
        button->setChecked(visible_[i]);
        button->setProperty("legend", true);
        connect(button, &QToolButton::toggled, this, [this, i](bool on) { setBandVisible(int(i), on); });
        legend_.push_back(button);
    }
}

void StepChart::applyColors() {
    const QPalette& p = palette();
    const QColor faint = theme::color(theme::Meaning::FaintText, p);
    const QColor line = theme::color(theme::Meaning::Line, p);
    const QFont caption = theme::captionFont();
    for (QValueAxis* axis : {xAxis_, yAxis_}) {
        axis->setLabelsFont(caption);
        axis->setLabelsColor(faint);
        axis->setLinePen(QPen(line, 1));
        axis->setGridLinePen(QPen(line, 1));
        axis->setTitleFont(caption);
        axis->setTitleBrush(faint);
    }
    for (size_t i = 0; i < areas_.size(); ++i) {
        const QColor color = bandColor(spec_.bands[i], p);
        areas_[i]->setBrush(color);
        legend_[i]->setIcon(swatch(color, visible_[i], devicePixelRatioF()));
        legend_[i]->setFont(caption);
    }
    peaks_->setPen(QPen(faint, 1));
    reading_->setFont(caption);
    for (QLabel* label : {reading_, empty_}) {
        QPalette faded = p;
        faded.setColor(QPalette::WindowText, faint);
        label->setPalette(faded);
    }
    plot_->setBackgroundBrush(Qt::NoBrush);
    plot_->viewport()->setAutoFillBackground(false);
}

void StepChart::refresh() {
    if (paused_)
        return;
    QElapsedTimer timer;
    timer.start();
    std::vector<StepValue> values;
    for (const ChartBand& band : spec_.bands)
        values.push_back(band.value);
    columns_ = history_->view(span_, max_columns, values);
    if (cursor_ >= int(columns_.size()))
        cursor_ = -1;
    updateSeries();
    if (showsTable())
        model_->setColumns(columns_);
    updateReading();
    updateState();
    refresh_ns_ += timer.nsecsElapsed();
}

qint64 StepChart::takeCostNs() {
    return std::exchange(refresh_ns_, 0) + plot_->takePaintNs();
}

void StepChart::updateSeries() {
    const qsizetype points = qsizetype(columns_.size());
    std::vector<QList<QPointF>> edges(bounds_.size());
    for (QList<QPointF>& edge : edges)
        edge.reserve(points);
    QList<QPointF> peaks;
    double highest = 0;
    bool joined = false;
    for (const StepColumn& column : columns_) {
        const double x = double(column.last);
        double y = 0;
        edges[0].append({x, 0});
        for (size_t i = 0; i < areas_.size(); ++i) {
            if (visible_[i])
                y += column.mean[i];
            edges[i + 1].append({x, y});
        }
        joined |= column.steps > 1;
        peaks.append({x, column.peak});
        highest = std::max(highest, y);
    }
    // The peaks belong to the whole stack; with a part of it hidden they would stand above what is drawn.
    const bool showPeaks = joined && std::all_of(visible_.begin(), visible_.end(), [](bool v) { return v; });
    if (showPeaks)
        for (const StepColumn& column : columns_)
            highest = std::max(highest, column.peak);
    for (size_t i = 0; i < bounds_.size(); ++i)
        bounds_[i]->replace(edges[i]);
    peaks_->replace(showPeaks ? peaks : QList<QPointF>());

    const double last = double(history_->lastNumber());
    const double span = double(std::min<quint64>(span_, std::max<quint64>(history_->size(), 60)));
    xAxis_->setRange(std::max(1.0, last - span + 1), std::max(last, 2.0));
    // A little hysteresis: the scale falls only when half of it would do.
    const double wanted = niceCeiling(highest);
    if (wanted > top_ || wanted <= top_ / 2) {
        top_ = wanted;
        yAxis_->setRange(0, top_);
        yAxis_->setLabelFormat(top_ >= 10 ? QStringLiteral("%.0f") : QStringLiteral("%.2g"));
    }
}

void StepChart::updateState() {
    QWidget* shown = showsTable() ? static_cast<QWidget*>(table_) : plot_;
    if (columns_.empty())
        shown = empty_;
    if (stack_->currentWidget() != shown)
        stack_->setCurrentWidget(shown);
    plot_->setCorner(paused_ ? tr("Held") : QString());
}

void StepChart::updateReading() {
    if (columns_.empty()) {
        reading_->clear();
        plot_->setMarker(std::nan(""));
        return;
    }
    const StepColumn& column = cursor_ >= 0 ? columns_[size_t(cursor_)] : columns_.back();
    plot_->setMarker(cursor_ >= 0 ? double(column.last) : std::nan(""));
    QStringList parts;
    if (cursor_ >= 0) {
        parts << tr("step %1").arg(StepColumnsModel::steps(column));
        for (size_t i = 0; i < spec_.bands.size(); ++i)
            if (visible_[i] && column.mean[i] > 0)
                parts << QStringLiteral("%1 %2").arg(spec_.bands[i].name, format::number(column.mean[i]));
    }
    double total = 0;
    for (size_t i = 0; i < spec_.bands.size(); ++i)
        if (visible_[i])
            total += column.mean[i];
    parts << QStringLiteral("%1 %2").arg(format::number(total), spec_.unit);
    const QString text = parts.join(QStringLiteral(" · "));
    reading_->setText(reading_->fontMetrics().elidedText(text, Qt::ElideLeft, reading_->width()));
    reading_->setAccessibleName(text);
}

void StepChart::setPaused(bool paused) {
    paused_ = paused;
    updateState();
    refresh();
}

void StepChart::setTableShown(bool shown) {
    tableShown_ = shown;
    model_->setColumns(shown ? columns_ : std::vector<StepColumn>());
    updateState();
}

void StepChart::setSpan(quint64 steps) {
    if (span_ == steps)
        return;
    span_ = steps;
    emit spanChanged(steps);
    refresh();
}

void StepChart::setBandVisible(int band, bool visible) {
    visible_[size_t(band)] = visible;
    areas_[size_t(band)]->setVisible(visible);
    legend_[size_t(band)]->setChecked(visible);
    legend_[size_t(band)]->setIcon(
        swatch(bandColor(spec_.bands[size_t(band)], palette()), visible, devicePixelRatioF()));
    updateSeries();
    updateReading();
}

void StepChart::setCursor(int column) {
    cursor_ = column;
    updateReading();
}

void StepChart::zoom(int direction) {
    const auto at = std::lower_bound(spans.begin(), spans.end(), span_) - spans.begin();
    const auto to = std::clamp<std::ptrdiff_t>(at + direction, 0, std::ptrdiff_t(spans.size()) - 1);
    setSpan(spans[size_t(to)]);
}

void StepChart::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange)
        applyColors();
}

void StepChart::keyPressEvent(QKeyEvent* event) {
    const int last = int(columns_.size()) - 1;
    switch (event->key()) {
    case Qt::Key_Space:
        return setPaused(!paused_);
    case Qt::Key_T:
        return setTableShown(!showsTable());
    case Qt::Key_Left:
        return setCursor(cursor_ < 0 ? last : std::max(0, cursor_ - 1));
    case Qt::Key_Right:
        return setCursor(cursor_ < 0 ? last : std::min(last, cursor_ + 1));
    case Qt::Key_Home:
        return setCursor(last < 0 ? -1 : 0);
    case Qt::Key_End:
        return setCursor(last);
    case Qt::Key_Escape:
        return setCursor(-1);
    case Qt::Key_Plus:
    case Qt::Key_Equal:
        return zoom(-1);
    case Qt::Key_Minus:
        return zoom(+1);
    default:
        QWidget::keyPressEvent(event);
    }
}

void StepChart::wheelEvent(QWheelEvent* event) {
    if (event->angleDelta().y() != 0)
        zoom(event->angleDelta().y() > 0 ? -1 : +1);
    event->accept();
}

void StepChart::contextMenuEvent(QContextMenuEvent* event) {
    QMenu menu(this);
    const auto add = [&](const QString& text, const QKeySequence& key, auto call) {
        QAction* action = menu.addAction(text);
        action->setShortcut(key);
        connect(action, &QAction::triggered, this, call);
        return action;
    };
    add(paused_ ? tr("Go on") : tr("Hold"), Qt::Key_Space, [this] { setPaused(!paused_); });
    add(showsTable() ? tr("Show as picture") : tr("Show as table"), Qt::Key_T,
        [this] { setTableShown(!showsTable()); });
    menu.addSeparator();
    add(tr("Fewer steps"), Qt::Key_Plus, [this] { zoom(-1); });
    add(tr("More steps"), Qt::Key_Minus, [this] { zoom(+1); });
    menu.addSeparator();
    add(tr("Save as PNG…"), {}, [this] { savePng(); })->setEnabled(!columns_.empty());
    add(tr("Save as CSV…"), {}, [this] { saveCsv(); })->setEnabled(!columns_.empty());
    menu.exec(event->globalPos());
}

QString StepChart::csv() const {
    QStringList lines;
    QStringList heading = {QStringLiteral("first_step"), QStringLiteral("last_step"),
                           QStringLiteral("steps")};
    for (const ChartBand& band : spec_.bands)
        heading << QStringLiteral("\"%1 (%2)\"").arg(band.name, spec_.unit);
    heading << QStringLiteral("\"peak (%1)\"").arg(spec_.unit);
    lines << heading.join(QLatin1Char(','));
    for (const StepColumn& column : columns_) {
        QStringList cells = {QString::number(column.first), QString::number(column.last),
                             QString::number(column.steps)};
        for (size_t i = 0; i < spec_.bands.size(); ++i)
            cells << QString::number(column.mean[i], 'g', 9);
        cells << QString::number(column.peak, 'g', 9);
        lines << cells.join(QLatin1Char(','));
    }
    return lines.join(QLatin1Char('\n')) + QLatin1Char('\n');
}

void StepChart::savePng() {
    const QPixmap picture = grab(); // what stands there now, not what stands there when a name has been typed
    const QString path = QFileDialog::getSaveFileName(
        this, tr("Save as PNG"), spec_.id + QStringLiteral(".png"), tr("PNG pictures (*.png)"));
    if (!path.isEmpty() && !picture.save(path, "PNG"))
        reading_->setText(tr("'%1' could not be written.").arg(path));
}

void StepChart::saveCsv() {
    const QByteArray text = csv().toUtf8();
    const QString path = QFileDialog::getSaveFileName(
        this, tr("Save as CSV"), spec_.id + QStringLiteral(".csv"), tr("Comma-separated values (*.csv)"));
    if (path.isEmpty())
        return;
    QSaveFile file(path);
    if (!file.open(QIODevice::WriteOnly) || file.write(text) != text.size() || !file.commit())
        reading_->setText(tr("'%1' could not be written: %2.").arg(path, file.errorString()));
}

} // namespace orrery::ui
