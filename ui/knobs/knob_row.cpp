#include "ui/knobs/knob_row.h"

#include "ui/knobs/number_box.h"
#include "ui/theme.h"

#include <QCheckBox>
#include <QGridLayout>
#include <QLabel>
#include <QSignalBlocker>
#include <QToolButton>

#include <algorithm>
#include <cmath>

namespace orrery::ui {

KnobRow::KnobRow(Knob knob, QWidget* parent)
    : QWidget(parent), knob_(std::move(knob)), value_(knob_.defaultValue()) {
    setObjectName(QString::fromLatin1(knob_.parameter->name));
    auto* grid = new QGridLayout(this);
    grid->setContentsMargins(0, 0, 0, 0);
    grid->setHorizontalSpacing(theme::space1);
    grid->setVerticalSpacing(2);
    grid->setColumnStretch(0, 1);

    if (knob_.isSwitch()) {
        check_ = new QCheckBox(knob_.label);
        check_->setAccessibleDescription(knob_.explanation);
        grid->addWidget(check_, 0, 0);
        connect(check_, &QCheckBox::toggled, this,
                [this](bool on) { choose(on ? knob_.parameter->highest : knob_.parameter->lowest); });
    } else {
        label_ = new QLabel(knob_.label);
        box_ = new NumberBox;
        slider_ = new QuietSlider;
        label_->setBuddy(box_);

        box_->setRange(knob_.parameter->lowest, knob_.parameter->highest);
        box_->setDecimals(knob_.decimals);
        box_->setSingleStep(knob_.step);
        box_->setSpecialValueText(knob_.lowestMeans);
        box_->setFont(theme::numberFont());
        box_->setFixedWidth(
            std::max(72, box_->fontMetrics().horizontalAdvance(QStringLiteral("000,000")) + 20));
        box_->setAccessibleName(knob_.label);
        box_->setAccessibleDescription(knob_.explanation);

        slider_->setRange(0, int(std::lround((knob_.sliderHigh - knob_.sliderLow) / knob_.step)));
        slider_->setPageStep(std::max(1, slider_->maximum() / 10));
        slider_->setAccessibleName(tr("%1, slider").arg(knob_.label));
        slider_->setAccessibleDescription(knob_.explanation);

        grid->addWidget(label_, 0, 0);
        grid->addWidget(box_, 0, 2);
        grid->addWidget(slider_, 1, 0, 1, 3);
        connect(box_, &QDoubleSpinBox::valueChanged, this, [this](double value) { choose(value); });
        connect(slider_, &QSlider::valueChanged, this,
                [this](int tick) { choose(knob_.sliderLow + tick * knob_.step); });
    }

    reset_ = new QToolButton;
    reset_->setIcon(theme::icon(QStringLiteral("reset"), theme::Meaning::FaintText));
    reset_->setIconSize({14, 14});
    reset_->setAccessibleName(tr("Reset %1").arg(knob_.label));
    reset_->setToolTip(tr("Put the default back"));
    QSizePolicy policy = reset_->sizePolicy();
    policy.setRetainSizeWhenHidden(true);
    reset_->setSizePolicy(policy);
    grid->addWidget(reset_, 0, 1);
    connect(reset_, &QToolButton::clicked, this, [this] { choose(knob_.defaultValue()); });

    setValue(value_);
}

/// The user's choice: shown in every part of the row, then emitted.
void KnobRow::choose(double value) {
    value = knob_.clean(value);
    if (value == value_)
        return setValue(value_); // a slider at its end while the box holds more
    setValue(value);
    emit turned(value);
}

void KnobRow::setValue(double value) {
    value_ = value;
    if (check_) {
        const QSignalBlocker block(check_);
        check_->setChecked(value == knob_.parameter->highest);
    } else {
        const QSignalBlocker blockBox(box_), blockSlider(slider_);
        box_->setValue(value);
        const double tick =
            std::clamp((value - knob_.sliderLow) / knob_.step, 0.0, double(slider_->maximum()));
        slider_->setValue(int(std::lround(tick)));
    }
    reset_->setVisible(knob_.clean(value) != knob_.clean(knob_.defaultValue()));
}

void KnobRow::display(const orrery::SamplingParams& params) {
    // The value as it is: a fraction finer than the box shows stays in the parameters until the knob is
    // turned.
    setValue(knob_.clean(knob_.parameter->get(params)));
    const QString idle = knob_.idleBecause ? knob_.idleBecause(params) : QString();
    const bool works = idle.isEmpty();
    for (QWidget* part : std::initializer_list<QWidget*>{label_, check_, box_, slider_})
        if (part)
            part->setEnabled(works);
    QString tip = QStringLiteral("<p>%1</p>").arg(knob_.explanation.toHtmlEscaped());
    if (!works)
        tip += QStringLiteral("<p>%1</p>").arg(tr("No effect now. %1").arg(idle).toHtmlEscaped());
    setToolTip(tip);
}

} // namespace orrery::ui
