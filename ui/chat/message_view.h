// One message of a conversation: its author, its text, and below an answer where its time went.
#pragma once

#include "ui/chat/chat_model.h"
#include "ui/chat/message_document.h"

#include <QTextBrowser>
#include <QWidget>

class QLabel;
class QProgressBar;
class QToolButton;

namespace orrery::ui {

class AnswerBar;

/// Rich text as high as its content; it never scrolls by itself.
class MessageBody : public QTextBrowser {
    Q_OBJECT

public:
    explicit MessageBody(QWidget* parent = nullptr);

    MessageDocument* message() const { return message_; }

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

protected:
    void resizeEvent(QResizeEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    void changeEvent(QEvent* event) override;
    QVariant loadResource(int type, const QUrl& name) override;

private:
    void follow(const QUrl& link);
    void fit();

    MessageDocument* message_;
    int height_ = 0;
};

class MessageView : public QWidget {
    Q_OBJECT

public:
    explicit MessageView(const ChatMessageEntry& message, QWidget* parent = nullptr);

    /// Text that came; drawn at once if it is the first, else with the next flush.
    void appendText(const QString& piece);
    /// Puts the text on the screen that has come since the last flush.
    void flush();
    /// State, reason, usage and timings as they are now.
    void setMessage(const ChatMessageEntry& message);
    /// Prompt tokens that the engine has read so far.
    void setPrefill(int computed, int total);
    /// The line of actions below; regenerating is for the last answer alone.
    void setCanRegenerate(bool can);

    QString text() const { return body_->message()->markdown() + pending_; }
    QString statusText() const;

signals:
    void regenerateRequested();

protected:
    void changeEvent(QEvent* event) override;

private:
    void applyColors();
    void updateStatus();

    ChatMessageEntry message_; ///< its text is in the body
    QString pending_;
    QLabel* author_;
    MessageBody* body_;
    QLabel* error_;
    QLabel* status_;
    QProgressBar* prefill_;
    AnswerBar* bar_;
    QToolButton* copy_;
    QToolButton* regenerate_;
};

} // namespace orrery::ui
