// One knob: its name, a number box, a slider, and a button that puts the default back.
#pragma once

#include "ui/knobs/knob_table.h"

#include <QWidget>

class QCheckBox;
class QDoubleSpinBox;
class QLabel;
class QSlider;
class QToolButton;

namespace orrery::ui {

class KnobRow : public QWidget {
    Q_OBJECT

public:
    explicit KnobRow(Knob knob, QWidget* parent = nullptr);

    const Knob& knob() const { return knob_; }
    double value() const { return value_; }

    /// Shows the knob's value in `params`, and whether turning it would change anything.
    void display(const orrery::SamplingParams& params);

signals:
    /// The user has chosen a value, which lies within the parameter's limits.
    void turned(double value);

private:
    void choose(double value);
    void setValue(double value);

    Knob knob_;
    double value_;
    QLabel* label_ = nullptr;
    QCheckBox* check_ = nullptr;
    QDoubleSpinBox* box_ = nullptr;
    QSlider* slider_ = nullptr;
    QToolButton* reset_ = nullptr;
};

} // namespace orrery::ui
