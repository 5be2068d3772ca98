// The one clock of the window: what moves, and what comes from another thread, goes by its ticks.
//
// It ticks once a frame while there is something to bring or to draw, more slowly while another program has
// the attention, a few times a second while the window cannot be seen (text and ends go on arriving), and not
// at all while nothing happens.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QPointer>
#include <QSet>
#include <QTimer>
#include <QWidget>

namespace orrery::ui {

class FrameClock : public QObject {
    Q_OBJECT

public:
    static constexpr int active_ms = 16;    ///< 60 frames a second
    static constexpr int unfocused_ms = 50; ///< 20 frames a second
    static constexpr int hidden_ms = 250;   ///< nothing is seen: only queues are emptied

    explicit FrameClock(QObject* parent = nullptr);

    /// The window whose visibility and focus set the rate; the one before is left alone. Without a window the
    /// clock ticks as for one that is seen.
    void setWindow(QWidget* window);

    /// Whether `source` has something to bring or to draw; it has nothing any more once it is destroyed. The
    /// clock runs while any source has, and a little longer, so that what came last is drawn too.
    void setBusy(QObject* source, bool busy);

    bool running() const { return timer_.isActive(); }
    int interval() const { return timer_.interval(); }

signals:
    /// `now_ns` counts from a fixed moment: what has its own pace compares it with the tick before.
    void tick(qint64 now_ns);

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void forget(QObject* source);
    void update();
    void onTimeout();
    int wantedInterval() const;

    QPointer<QWidget> window_;
    QTimer timer_;
    QElapsedTimer time_;
    QSet<QObject*> busy_;
    qint64 busyUntil_ns_; ///< when the last source had something
};

} // namespace orrery::ui
