#include "ui/frame_clock.h"

#include <QEvent>
#include <QWidget>

namespace orrery::ui {

namespace {
/// How long the clock goes on after the last activity: the engine's last report comes a moment after the last
/// token.
constexpr int tail_ms = 250;
} // namespace

FrameClock::FrameClock(QWidget* window) : QObject(window), window_(window) {
    timer_.setTimerType(Qt::PreciseTimer);
    connect(&timer_, &QTimer::timeout, this, &FrameClock::onTimeout);
    window->installEventFilter(this);
}

void FrameClock::setBusy(bool busy) {
    if (busy_ && !busy)
        sinceBusy_.start();
    busy_ = busy;
    update();
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

void FrameClock::update() {
    const bool wanted = busy_ || (sinceBusy_.isValid() && sinceBusy_.elapsed() < tail_ms);
    if (!wanted || !window_->isVisible() || window_->isMinimized()) {
        timer_.stop();
        return;
    }
    const int interval = window_->isActiveWindow() ? active_ms : unfocused_ms;
    if (!timer_.isActive() || timer_.interval() != interval)
        timer_.start(interval);
}

void FrameClock::onTimeout() {
    emit tick();
    if (!busy_)
        update();
}

} // namespace orrery::ui
