// Fields for numbers that keep still: no change while a number is being typed, none by a wheel that was meant
// for the panel, digits grouped as the language groups them.
#pragma once

#include <QDoubleSpinBox>
#include <QSlider>
#include <QWheelEvent>

namespace orrery::ui {

class NumberBox : public QDoubleSpinBox {
    Q_OBJECT

public:
    explicit NumberBox(QWidget* parent = nullptr) : QDoubleSpinBox(parent) {
        setButtonSymbols(QAbstractSpinBox::NoButtons);
        setAlignment(Qt::AlignRight);
        setKeyboardTracking(false);
        setGroupSeparatorShown(true);
        setFocusPolicy(Qt::StrongFocus);
        setAccelerated(true);
    }

protected:
    void wheelEvent(QWheelEvent* event) override {
        hasFocus() ? QDoubleSpinBox::wheelEvent(event) : event->ignore();
    }
};

class QuietSlider : public QSlider {
    Q_OBJECT

public:
    explicit QuietSlider(QWidget* parent = nullptr) : QSlider(Qt::Horizontal, parent) {
        setFocusPolicy(Qt::StrongFocus);
    }

protected:
    void wheelEvent(QWheelEvent* event) override {
        hasFocus() ? QSlider::wheelEvent(event) : event->ignore();
    }
};

} // namespace orrery::ui
