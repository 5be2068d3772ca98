#include "ui/chat/conversation_view.h"

#include "ui/chat/message_view.h"
#include "ui/frame_clock.h"
#include "ui/theme.h"

#include <QLabel>
#include <QScrollBar>
#include <QToolButton>
#include <QVBoxLayout>

namespace orrery::ui {

namespace {
/// Text is put on the screen with every other frame: reading speed needs no more, and laying out costs. (A
/// little less than two frames, since no tick is exactly on time.)
constexpr qint64 flush_ns = 2'000'000 * FrameClock::active_ms - 4'000'000;
/// The reader is at the end while no more than this is hidden below, pixels.
constexpr int end_slack = 24;
} // namespace

ConversationView::ConversationView(FrameClock* clock, QWidget* parent)
    : QScrollArea(parent), page_(new QWidget), empty_(new QLabel), down_(new QToolButton(this)) {
    setObjectName(QStringLiteral("conversation"));
    setAccessibleName(tr("Conversation"));
    setWidgetResizable(true);
    setFrameShape(QFrame::NoFrame);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);

    empty_->setAlignment(Qt::AlignCenter);
    empty_->setWordWrap(true);
    empty_->setTextFormat(Qt::PlainText);
    auto* inner = new QWidget;
    inner->setMaximumWidth(theme::conversationWidth);
    column_ = new QVBoxLayout(inner);
    column_->setContentsMargins(theme::space4, theme::space6, theme::space4, theme::space4);
    column_->setSpacing(theme::space6);
    column_->addStretch(1);
    auto* row = new QHBoxLayout(page_);
    row->setContentsMargins(0, 0, 0, 0);
    row->addStretch(1);
    row->addWidget(inner, 1000);
    row->addStretch(1);
    column_->insertWidget(0, empty_, 1);
    setWidget(page_);

    down_->setIcon(theme::icon(QStringLiteral("chevron-down")));
    down_->setToolTip(tr("To the end"));
    down_->setAccessibleName(tr("To the end"));
    down_->hide();
    connect(down_, &QToolButton::clicked, this, [this] {
        following_ = true;
        toEnd();
    });

    connect(clock, &FrameClock::tick, this, &ConversationView::onTick);
    connect(verticalScrollBar(), &QScrollBar::rangeChanged, this, [this] {
        if (following_)
            toEnd();
    });
    connect(verticalScrollBar(), &QScrollBar::valueChanged, this, [this](int value) {
        if (!scrolling_)
            following_ = value >= verticalScrollBar()->maximum() - end_slack;
        down_->setVisible(!following_);
    });
}

void ConversationView::setChat(ChatModel* chat) {
    if (chat_)
        disconnect(chat_, nullptr, this, nullptr);
    if (!messages_.empty())
        remove(0, messageCount() - 1);
    chat_ = chat;
    following_ = true;
    if (!chat_)
        return;
    connect(chat_, &ChatModel::rowsInserted, this,
            [this](const QModelIndex&, int first, int last) { insert(first, last); });
    connect(chat_, &ChatModel::rowsRemoved, this,
            [this](const QModelIndex&, int first, int last) { remove(first, last); });
    connect(chat_, &ChatModel::dataChanged, this, [this](const QModelIndex& from, const QModelIndex& to) {
        for (int row = from.row(); row <= to.row(); ++row)
            update(row);
    });
    connect(chat_, &ChatModel::textAppended, this, [this](int row, const QString& piece) {
        messages_[size_t(row)]->appendText(piece);
        pending_ = true;
    });
    connect(chat_, &ChatModel::busyChanged, this, &ConversationView::updateActions);
    if (!chat_->messages().empty())
        insert(0, int(chat_->messages().size()) - 1);
    empty_->setVisible(messages_.empty());
}

void ConversationView::setEmptyText(const QString& text) {
    empty_->setText(text);
}

void ConversationView::setPrefill(int computed, int total) {
    if (!messages_.empty())
        messages_.back()->setPrefill(computed, total);
}

void ConversationView::insert(int first, int last) {
    for (int row = first; row <= last; ++row) {
        auto* view = new MessageView(chat_->messages()[size_t(row)]);
        connect(view, &MessageView::regenerateRequested, this, &ConversationView::regenerateRequested);
        messages_.insert(messages_.begin() + row, view);
        column_->insertWidget(row + 1, view); // behind the empty text
    }
    empty_->hide();
    // A new message is to be seen, and so is its answer.
    following_ = true;
    updateActions();
    // Once the new message has been laid out.
    QMetaObject::invokeMethod(this, &ConversationView::toEnd, Qt::QueuedConnection);
}

void ConversationView::remove(int first, int last) {
    for (int row = last; row >= first; --row) {
        messages_[size_t(row)]->hide();
        messages_[size_t(row)]->deleteLater();
        messages_.erase(messages_.begin() + row);
    }
    empty_->setVisible(messages_.empty());
    updateActions();
}

void ConversationView::update(int row) {
    messages_[size_t(row)]->setMessage(chat_->messages()[size_t(row)]);
}

void ConversationView::updateActions() {
    const bool can = chat_ && chat_->canRegenerate();
    for (size_t row = 0; row < messages_.size(); ++row)
        messages_[row]->setCanRegenerate(can && row + 1 == messages_.size());
}

void ConversationView::onTick(qint64 now_ns) {
    if (!pending_ || now_ns - flushed_ns_ < flush_ns)
        return;
    pending_ = false;
    flushed_ns_ = now_ns;
    for (MessageView* view : messages_)
        view->flush();
}

void ConversationView::toEnd() {
    scrolling_ = true;
    verticalScrollBar()->setValue(verticalScrollBar()->maximum());
    scrolling_ = false;
    down_->setVisible(!following_);
}

void ConversationView::resizeEvent(QResizeEvent* event) {
    QScrollArea::resizeEvent(event);
    const QSize size = down_->sizeHint();
    down_->setGeometry((width() - size.width()) / 2, height() - size.height() - theme::space2, size.width(),
                       size.height());
    if (following_)
        toEnd();
}

} // namespace orrery::ui
