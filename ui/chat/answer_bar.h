// Where one answer's time went: waiting, reading the prompt, writing; as a bar of three lengths and a line of
// numbers.
#pragma once

#include "ui/chat/chat_model.h"

#include <QWidget>

namespace orrery::ui {

class AnswerBar : public QWidget {
    Q_OBJECT

public:
    explicit AnswerBar(QWidget* parent = nullptr);

    void setMessage(const ChatMessageEntry& message);

    QSize sizeHint() const override;

    /// "312 tokens · 58.0 tok/s · first after 210 ms", and why the answer ended where that is not the usual.
    static QString line(const ChatMessageEntry& message);

protected:
    void paintEvent(QPaintEvent* event) override;
    bool event(QEvent* event) override;

private:
    qint64 wait_ns_ = 0;
    qint64 prefill_ns_ = 0;
    qint64 decode_ns_ = 0;
};

} // namespace orrery::ui
