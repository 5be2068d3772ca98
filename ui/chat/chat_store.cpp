#include "ui/chat/chat_store.h"

#include "ui/theme.h"

#include <algorithm>

namespace orrery::ui {

ChatStore::ChatStore(EngineSession* session, QObject* parent)
    : QAbstractListModel(parent), session_(session) {}

int ChatStore::rowOf(const ChatModel* chat) const {
    const auto it = std::find(chats_.begin(), chats_.end(), chat);
    return it == chats_.end() ? -1 : int(it - chats_.begin());
}

ChatModel* ChatStore::addChat(const ChatModel* like) {
    for (ChatModel* chat : chats_)
        if (chat->messages().empty() && !chat->busy())
            return chat;
    auto* chat = new ChatModel(session_, this);
    if (like)
        chat->setSettings(like->settings());
    connect(chat, &ChatModel::titleChanged, this, [this, chat] { changed(chat); });
    connect(chat, &ChatModel::busyChanged, this, [this, chat] { changed(chat); });
    beginInsertRows({}, 0, 0);
    chats_.insert(chats_.begin(), chat);
    endInsertRows();
    return chat;
}

void ChatStore::removeChat(int row) {
    ChatModel* chat = chats_[size_t(row)];
    chat->stop();
    beginRemoveRows({}, row, row);
    chats_.erase(chats_.begin() + row);
    endRemoveRows();
    chat->deleteLater();
}

void ChatStore::changed(const ChatModel* chat) {
    const QModelIndex at = index(rowOf(chat));
    emit dataChanged(at, at);
}

int ChatStore::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : int(chats_.size());
}

QVariant ChatStore::data(const QModelIndex& index, int role) const {
    if (!checkIndex(index, CheckIndexOption::IndexIsValid | CheckIndexOption::ParentIsInvalid))
        return {};
    const ChatModel* chat = chats_[size_t(index.row())];
    const QString title = chat->title().isEmpty() ? tr("New chat") : chat->title();
    switch (role) {
    case Qt::DisplayRole:
        return title;
    case Qt::EditRole:
        return chat->title();
    case Qt::ToolTipRole:
        return chat->title();
    case BusyRole:
        return chat->busy();
    case Qt::AccessibleTextRole:
        return chat->busy() ? tr("%1, an answer is being written").arg(title) : title;
    default:
        return {};
    }
}

bool ChatStore::setData(const QModelIndex& index, const QVariant& value, int role) {
    if (role != Qt::EditRole || !index.isValid() || value.toString().trimmed().isEmpty())
        return false;
    chats_[size_t(index.row())]->setTitle(value.toString().simplified());
    return true;
}

Qt::ItemFlags ChatStore::flags(const QModelIndex& index) const {
    return QAbstractListModel::flags(index) | Qt::ItemIsEditable | Qt::ItemNeverHasChildren;
}

} // namespace orrery::ui
