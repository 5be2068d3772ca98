#include "ui/knobs/section.h"

#include "ui/theme.h"

#include <QSettings>
#include <QToolButton>
#include <QVBoxLayout>

namespace orrery::ui {

Section::Section(const QString& title, const QString& key, QWidget* parent)
    : QWidget(parent),
      key_(QStringLiteral("sections/") + key),
      header_(new QToolButton),
      content_(new QWidget),
      body_(new QVBoxLayout(content_)) {
    setObjectName(key);
    header_->setObjectName(QStringLiteral("sectionHeader"));
    header_->setText(title);
    header_->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    header_->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    header_->setCheckable(true);
    header_->setIconSize({14, 14});
    header_->setFocusPolicy(Qt::StrongFocus);

    body_->setContentsMargins(0, theme::space1, 0, theme::space2);
    body_->setSpacing(theme::space2);
    auto* column = new QVBoxLayout(this);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    column->addWidget(header_);
    column->addWidget(content_);

    connect(header_, &QToolButton::toggled, this, [this](bool open) {
        setOpen(open);
        QSettings().setValue(key_, open);
    });
    setOpen(QSettings().value(key_, false).toBool());
}

void Section::setOpen(bool open) {
    const QSignalBlocker block(header_);
    header_->setChecked(open);
    header_->setIcon(theme::icon(open ? QStringLiteral("chevron-down") : QStringLiteral("chevron-right"),
                                 theme::Meaning::FaintText));
    header_->setAccessibleDescription(open ? tr("open") : tr("closed"));
    content_->setVisible(open);
}

bool Section::isOpen() const {
    return header_->isChecked();
}

} // namespace orrery::ui
