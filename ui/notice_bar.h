// A line above the conversation that says what went wrong: what happened, to what, what to do. It stands
// beside the work and never in front of it.
#pragma once

#include <QFrame>

class QLabel;
class QToolButton;

namespace orrery::ui {

class NoticeBar : public QFrame {
    Q_OBJECT

public:
    explicit NoticeBar(QWidget* parent = nullptr);

    /// Shows a sentence until it is closed or replaced.
    void showError(const QString& sentence);
    QString text() const;

public slots:
    void dismiss();

private:
    void changeEvent(QEvent* event) override;
    void drawMark();

    QLabel* mark_;
    QLabel* text_;
    QToolButton* close_;
};

} // namespace orrery::ui
