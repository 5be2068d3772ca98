#include "ui/frame_clock.h"

#include <QEvent>

namespace orrery::ui {

namespace {
/// How long the clock goes on after the last activity: the engine's last report comes a moment after the last
/// token.
constexpr qint64 tail_ns = 250'000'000;
} // namespace

FrameClock::FrameClock(QObject* parent) : QObject(parent), timer_(this), busyUntil_ns_(-tail_ns) {
    time_.start();
    timer_.setTimerType(Qt::PreciseTimer);
    connect(&timer_, &QTimer::timeout, this, &FrameClock::onTimeout);
}

void FrameClock::setWindow(QWidget* window) {
    if (window_)
        window_->removeEventFilter(this);
    window_ = window;
    if (window_)
        window_->installEventFilter(this);
    update();
}

void FrameClock::setBusy(QObject* source, bool busy) {
    if (busy == busy_.contains(source))
        return;
    if (busy) {
        busy_.insert(source);
        connect(source, &QObject::destroyed, this, &FrameClock::forget, Qt::UniqueConnection);
        update();
    } else {
        forget(source);
    }
}

void FrameClock::forget(QObject* source) {
    if (busy_.remove(source) && busy_.isEmpty())
        busyUntil_ns_ = time_.nsecsElapsed();
}

bool FrameClock::eventFilter(QObject* watched, QEvent* event) {
    switch (event->type()) {
    case QEvent::Show:
    case QEvent::Hide:
    case QEvent::WindowStateChange:
    case QEvent::WindowActivate:
    case QEvent::WindowDeactivate:
        // The window's own state is set after its filters have run.
        QMetaObject::invokeMethod(this, &FrameClock::update, Qt::QueuedConnection);
        break;
    default:
        break;
    }
    return QObject::eventFilter(watched, event);
}

int FrameClock::wantedInterval() const {
    if (!window_)
        return active_ms;
    if (!window_->isVisible() || window_->isMinimized())
        return hidden_ms;
    return window_->isActiveWindow() ? active_ms : unfocused_ms;
}

void FrameClock::update() {
    if (busy_.isEmpty() && time_.nsecsElapsed() - busyUntil_ns_ >= tail_ns) {
        timer_.stop();
        return;
    }
    const int interval = wantedInterval();
    if (!timer_.isActive() || timer_.interval() != interval)
        timer_.start(interval);
}

void FrameClock::onTimeout() {
    emit tick(time_.nsecsElapsed());
    update();
}

} // namespace orrery::ui
