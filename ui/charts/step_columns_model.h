// A picture's table twin: the same columns, newest first, as rows of numbers.
#pragma once

#include "ui/charts/step_history.h"

#include <QAbstractTableModel>
#include <QStringList>

namespace orrery::ui {

class StepColumnsModel : public QAbstractTableModel {
    Q_OBJECT

public:
    StepColumnsModel(QStringList bands, QString unit, QObject* parent = nullptr);

    void setColumns(const std::vector<StepColumn>& columns);

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

    /// "1,204", or "1,200–1,209" for a column of several steps.
    static QString steps(const StepColumn& column);

private:
    QStringList bands_;
    QString unit_;
    std::vector<StepColumn> columns_;
};

} // namespace orrery::ui
