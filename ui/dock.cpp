#include "ui/dock.h"

#include "ui/theme.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QToolButton>

namespace orrery::ui {

QDockWidget* makeDock(const QString& name, const QString& title, QWidget* content, QWidget* parent) {
    auto* dock = new QDockWidget(title, parent);
    dock->setObjectName(name);
    dock->setFeatures(QDockWidget::DockWidgetClosable | QDockWidget::DockWidgetMovable);

    auto* bar = new QWidget;
    bar->setObjectName(QStringLiteral("dockTitle"));
    auto* caption = new QLabel(title);
    caption->setObjectName(QStringLiteral("dockCaption"));
    auto* close = new QToolButton;
    close->setObjectName(QStringLiteral("dockClose"));
    close->setIcon(theme::icon(QStringLiteral("close"), theme::Meaning::FaintText));
    close->setIconSize({12, 12});
    close->setToolTip(QDockWidget::tr("Close"));
    close->setAccessibleName(QDockWidget::tr("Close"));
    auto* row = new QHBoxLayout(bar);
    row->setContentsMargins(theme::space3, theme::space2, theme::space1, 0);
    row->addWidget(caption, 1);
    row->addWidget(close);
    QObject::connect(close, &QToolButton::clicked, dock, &QDockWidget::close);
    dock->setTitleBarWidget(bar);
    dock->setWidget(content);
    return dock;
}

} // namespace orrery::ui
