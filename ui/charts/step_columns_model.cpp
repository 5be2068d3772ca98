#include "ui/charts/step_columns_model.h"

#include "ui/format.h"

namespace orrery::ui {

StepColumnsModel::StepColumnsModel(QStringList bands, QString unit, QObject* parent)
    : QAbstractTableModel(parent), bands_(std::move(bands)), unit_(std::move(unit)) {}

void StepColumnsModel::setColumns(const std::vector<StepColumn>& columns) {
    beginResetModel();
    columns_ = columns;
    endResetModel();
}

int StepColumnsModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : int(columns_.size());
}

int StepColumnsModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : int(bands_.size()) + 2;
}

QVariant StepColumnsModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid())
        return {};
    if (role == Qt::TextAlignmentRole)
        return QVariant(Qt::AlignRight | Qt::AlignVCenter);
    if (role != Qt::DisplayRole)
        return {};
    const StepColumn& column = columns_[columns_.size() - 1 - size_t(index.row())];
    if (index.column() == 0)
        return steps(column);
    if (index.column() == columnCount() - 1)
        return format::number(column.peak);
    return format::number(column.mean[size_t(index.column()) - 1]);
}

QVariant StepColumnsModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || role != Qt::DisplayRole)
        return {};
    if (section == 0)
        return tr("Step");
    if (section == columnCount() - 1)
        return tr("Peak, %1").arg(unit_);
    return QStringLiteral("%1, %2").arg(bands_[section - 1], unit_);
}

QString StepColumnsModel::steps(const StepColumn& column) {
    if (column.first == column.last)
        return format::count(qint64(column.first));
    return format::count(qint64(column.first)) + QChar(0x2013) + format::count(qint64(column.last));
}

} // namespace orrery::ui
