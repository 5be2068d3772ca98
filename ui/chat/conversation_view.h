// The messages of one chat, one below the other in a readable column.
//
// It follows what is being written while the reader is at the end, and stays where it is once the reader has
// scrolled away; at the end again, it follows again.
#pragma once

#include "ui/chat/chat_model.h"

#include <QPointer>
#include <QScrollArea>

#include <vector>

class QLabel;
class QToolButton;
class QVBoxLayout;

namespace orrery::ui {

class FrameClock;
class MessageView;

class ConversationView : public QScrollArea {
    Q_OBJECT

public:
    /// What is being written is put on the screen by the clock.
    explicit ConversationView(FrameClock* clock, QWidget* parent = nullptr);

    void setChat(ChatModel* chat);
    /// What stands where no message is.
    void setEmptyText(const QString& text);
    /// How far the engine has read the prompt of the running answer.
    void setPrefill(int computed, int total);

    int messageCount() const { return int(messages_.size()); }
    MessageView* message(int row) const { return messages_[size_t(row)]; }
    /// Whether the view follows what is being written.
    bool following() const { return following_; }

signals:
    void regenerateRequested();

protected:
    void resizeEvent(QResizeEvent* event) override;

private:
    void insert(int first, int last);
    void remove(int first, int last);
    void update(int row);
    void updateActions();
    void onTick(qint64 now_ns);
    void toEnd();

    QPointer<ChatModel> chat_;
    QWidget* page_;
    QVBoxLayout* column_;
    QLabel* empty_;
    QToolButton* down_; ///< back to the end
    std::vector<MessageView*> messages_;
    bool pending_ = false;  ///< text has come that is not on the screen
    qint64 flushed_ns_ = 0; ///< when text was put on the screen last
    bool following_ = true;
    bool scrolling_ = false; ///< the view itself moves the bar
};

} // namespace orrery::ui
