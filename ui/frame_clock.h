// One clock for everything that moves in a window.
//
// It ticks once a frame while there is something to show, more slowly while another program has the
// attention, and not at all while the window is hidden or nothing happens.
#pragma once

#include <QElapsedTimer>
#include <QTimer>

class QWidget;

namespace orrery::ui {

class FrameClock : public QObject {
    Q_OBJECT

public:
    static constexpr int active_ms = 16;    ///< 60 frames a second
    static constexpr int unfocused_ms = 50; ///< 20 frames a second

    /// Watches `window`: its visibility, and whether it is the active one.
    explicit FrameClock(QWidget* window);

    /// Whether something goes on that must be drawn. After the end the clock ticks a little longer, so that
    /// what came last is drawn too.
    void setBusy(bool busy);

    bool running() const { return timer_.isActive(); }
    int interval() const { return timer_.interval(); }

signals:
    void tick();

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void update();
    void onTimeout();

    QWidget* window_;
    QTimer timer_;
    bool busy_ = false;
    QElapsedTimer sinceBusy_;
};

} // namespace orrery::ui
