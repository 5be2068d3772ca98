// One picture of the engine's last steps: values stacked as areas over the step's number.
//
// Its title is the question that it answers. Clicking a name in the legend hides or shows it; the mouse or
// the arrow keys read a column's values; Space holds the picture, T shows it as a table, + and − (or the
// wheel) change how many steps it spans; the context menu saves it as PNG or CSV.
#pragma once

#include "ui/charts/step_history.h"
#include "ui/theme.h"

#include <QWidget>

#include <vector>

class QAbstractTableModel;
class QAreaSeries;
class QChart;
class QLabel;
class QLineSeries;
class QStackedLayout;
class QTableView;
class QToolButton;
class QValueAxis;

namespace orrery::ui {

class StepColumnsModel;
class StepPlot;

/// One band of the stack.
struct ChartBand {
    QString name;    ///< in the legend
    QString meaning; ///< one sentence, the legend's tooltip
    theme::Meaning color;
    double shade = 1.0; ///< below 1: mixed with the ground, to tell bands of one meaning apart
    StepValue value;
    bool shown = true; ///< at first; the legend shows and hides it
};

struct ChartSpec {
    QString id;        ///< object name, and the file name of exports
    QString title;     ///< the question
    QString unit;      ///< of the vertical axis, such as "ms"
    QString emptyText; ///< what will appear here
    std::vector<ChartBand> bands;
};

class StepChart : public QWidget {
    Q_OBJECT

public:
    /// Points of a series at the most. Qt Charts repaints 2,000 points in 5 to 6 ms.
    static constexpr int max_columns = 240;

    /// The history must live longer.
    StepChart(ChartSpec spec, const StepHistory* history, QWidget* parent = nullptr);

    /// Draws the history as it is now; does nothing while held.
    void refresh();

    /// Nanoseconds spent in refreshing and painting since the last call.
    qint64 takeCostNs();

    bool paused() const { return paused_; }
    bool showsTable() const { return tableShown_; }
    quint64 span() const { return span_; }
    /// The columns as they are drawn, oldest first.
    const std::vector<StepColumn>& columns() const { return columns_; }
    const ChartSpec& spec() const { return spec_; }
    bool bandVisible(int band) const { return visible_[size_t(band)]; }

    /// The drawn columns as comma-separated values with a heading line.
    QString csv() const;

public slots:
    void setPaused(bool paused);
    void setTableShown(bool shown);
    void setSpan(quint64 steps);
    void setBandVisible(int band, bool visible);
    /// Marks the column under the cursor and reads its values; −1 marks none.
    void setCursor(int column);

signals:
    /// The number of steps shown has changed; pictures side by side follow each other.
    void spanChanged(quint64 steps);

protected:
    void changeEvent(QEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    void contextMenuEvent(QContextMenuEvent* event) override;

private:
    void buildLegend();
    void applyColors();
    void updateSeries();
    void updateState();
    void updateReading();
    void zoom(int direction);
    void savePng();
    void saveCsv();

    ChartSpec spec_;
    const StepHistory* history_;
    std::vector<StepColumn> columns_;
    std::vector<bool> visible_;
    quint64 span_ = 240;
    bool paused_ = false;
    bool tableShown_ = false;
    int cursor_ = -1;
    double top_ = 0; ///< of the vertical axis
    qint64 refresh_ns_ = 0;

    QLabel* title_;
    QLabel* reading_; ///< the values under the cursor, or the newest ones
    QLabel* empty_;
    QStackedLayout* stack_; ///< empty text, plot, table
    QChart* chart_;
    StepPlot* plot_;
    QTableView* table_;
    StepColumnsModel* model_;
    QValueAxis* xAxis_;
    QValueAxis* yAxis_;
    std::vector<QLineSeries*> bounds_; ///< bounds_[i] is the upper edge of band i − 1, bounds_[0] the ground
    std::vector<QAreaSeries*> areas_;
    QLineSeries* peaks_; ///< the largest single step of each column, where columns join several
    std::vector<QToolButton*> legend_;
};

} // namespace orrery::ui
