#include "ui/chat/chat_list.h"

#include "ui/theme.h"

#include <QHBoxLayout>
#include <QLineEdit>
#include <QListView>
#include <QMenu>
#include <QPainter>
#include <QSortFilterProxyModel>
#include <QStyledItemDelegate>
#include <QToolButton>
#include <QVBoxLayout>

namespace orrery::ui {

namespace {

/// A chat whose answer is being written carries a dot in the colour of decode.
class ChatDelegate : public QStyledItemDelegate {
public:
    using QStyledItemDelegate::QStyledItemDelegate;

    void paint(QPainter* painter, const QStyleOptionViewItem& option,
               const QModelIndex& index) const override {
        QStyledItemDelegate::paint(painter, option, index);
        if (!index.data(ChatStore::BusyRole).toBool())
            return;
        painter->save();
        painter->setRenderHint(QPainter::Antialiasing);
        painter->setPen(Qt::NoPen);
        painter->setBrush(theme::color(theme::Meaning::Decode, option.palette));
        const QPointF centre(option.rect.right() - 10.0, option.rect.center().y() + 0.5);
        painter->drawEllipse(centre, 3.5, 3.5);
        painter->restore();
    }

protected:
    /// The title ends before the dot.
    void initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const override {
        QStyledItemDelegate::initStyleOption(option, index);
        if (index.data(ChatStore::BusyRole).toBool())
            option->text =
                option->fontMetrics.elidedText(option->text, Qt::ElideRight, option->rect.width() - dot_room);
    }

private:
    static constexpr int dot_room = 2 * theme::space4 + theme::space2;
};

} // namespace

ChatList::ChatList(ChatStore* store, QWidget* parent)
    : QWidget(parent),
      store_(store),
      filter_(new QSortFilterProxyModel(this)),
      view_(new QListView),
      search_(new QLineEdit) {
    setObjectName(QStringLiteral("chatList"));
    filter_->setSourceModel(store);
    filter_->setFilterCaseSensitivity(Qt::CaseInsensitive);

    auto* add = new QToolButton;
    add->setObjectName(QStringLiteral("newChatButton"));
    add->setIcon(theme::icon(QStringLiteral("plus")));
    add->setIconSize({theme::iconSize, theme::iconSize});
    add->setToolTip(
        tr("New chat (%1)").arg(QKeySequence(QKeySequence::New).toString(QKeySequence::NativeText)));
    add->setAccessibleName(tr("New chat"));

    search_->setObjectName(QStringLiteral("chatSearch"));
    search_->setPlaceholderText(tr("Find a chat"));
    search_->setAccessibleName(tr("Find a chat"));
    search_->setClearButtonEnabled(true);

    view_->setObjectName(QStringLiteral("chatView"));
    view_->setAccessibleName(tr("Chats"));
    view_->setModel(filter_);
    view_->setItemDelegate(new ChatDelegate(view_));
    view_->setEditTriggers(QAbstractItemView::EditKeyPressed | QAbstractItemView::DoubleClicked);
    view_->setContextMenuPolicy(Qt::CustomContextMenu);
    view_->setUniformItemSizes(true);
    view_->setTextElideMode(Qt::ElideRight);
    view_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);

    auto* top = new QHBoxLayout;
    top->setSpacing(theme::space1);
    top->addWidget(search_, 1);
    top->addWidget(add);
    auto* column = new QVBoxLayout(this);
    column->setContentsMargins(theme::space2, theme::space1, theme::space2, theme::space2);
    column->setSpacing(theme::space2);
    column->addLayout(top);
    column->addWidget(view_, 1);

    auto* remove = new QAction(theme::icon(QStringLiteral("trash")), tr("Delete"), view_);
    remove->setShortcut(QKeySequence::Delete);
    remove->setShortcutContext(Qt::WidgetShortcut);
    view_->addAction(remove);

    connect(add, &QToolButton::clicked, this, &ChatList::newChatRequested);
    connect(search_, &QLineEdit::textChanged, filter_, &QSortFilterProxyModel::setFilterFixedString);
    connect(remove, &QAction::triggered, this, [this] {
        if (ChatModel* chat = chatAt(view_->currentIndex()))
            emit deleteRequested(chat);
    });
    connect(view_, &QListView::customContextMenuRequested, this, &ChatList::showMenu);
    connect(view_->selectionModel(), &QItemSelectionModel::currentChanged, this,
            [this](const QModelIndex& current) {
                if (ChatModel* chat = chatAt(current))
                    emit chosen(chat);
            });
}

ChatModel* ChatList::chatAt(const QModelIndex& index) const {
    return index.isValid() ? store_->chat(filter_->mapToSource(index).row()) : nullptr;
}

void ChatList::setCurrent(const ChatModel* chat) {
    const QModelIndex index = filter_->mapFromSource(store_->index(store_->rowOf(chat)));
    if (index.isValid() && index != view_->currentIndex())
        view_->setCurrentIndex(index);
}

void ChatList::focusSearch() {
    search_->setFocus(Qt::ShortcutFocusReason);
    search_->selectAll();
}

void ChatList::showMenu(const QPoint& at) {
    const QModelIndex index = view_->indexAt(at);
    ChatModel* chat = chatAt(index);
    if (!chat)
        return;
    QMenu menu(this);
    menu.addAction(theme::icon(QStringLiteral("edit")), tr("Rename"), this,
                   [this, index] { view_->edit(index); });
    menu.addAction(theme::icon(QStringLiteral("trash")), tr("Delete"), this,
                   [this, chat] { emit deleteRequested(chat); });
    menu.exec(view_->viewport()->mapToGlobal(at));
}

} // namespace orrery::ui
