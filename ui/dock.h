// A dock with a quiet title: a caption and a button that closes it.
#pragma once

#include <QDockWidget>

namespace orrery::ui {

/// Makes a dock around `content`. `name` is what the window's state remembers it by.
QDockWidget* makeDock(const QString& name, const QString& title, QWidget* content, QWidget* parent);

} // namespace orrery::ui
