// The field to write in. Enter sends, Shift+Enter breaks the line; while an input method composes, Enter is
// the input method's. It grows with its text, up to a third of the window.
#pragma once

#include <QPlainTextEdit>

namespace orrery::ui {

class Composer : public QPlainTextEdit {
    Q_OBJECT

public:
    explicit Composer(QWidget* parent = nullptr);

    QSize sizeHint() const override;

signals:
    void sendRequested();
    void stopRequested(); ///< Escape

protected:
    void keyPressEvent(QKeyEvent* event) override;
    void inputMethodEvent(QInputMethodEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    /// What is pasted is text, whatever else it brings.
    void insertFromMimeData(const QMimeData* source) override;

private:
    void fit();

    bool composing_ = false;
};

} // namespace orrery::ui
