// A part of a panel under a title that opens and closes it.
#pragma once

#include <QWidget>

class QToolButton;
class QVBoxLayout;

namespace orrery::ui {

class Section : public QWidget {
    Q_OBJECT

public:
    /// `key` remembers between two starts whether it is open.
    Section(const QString& title, const QString& key, QWidget* parent = nullptr);

    QVBoxLayout* body() const { return body_; }
    void setOpen(bool open);
    bool isOpen() const;

private:
    QString key_;
    QToolButton* header_;
    QWidget* content_;
    QVBoxLayout* body_;
};

} // namespace orrery::ui
