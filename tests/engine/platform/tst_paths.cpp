#include "engine/platform/paths.h"

#include <QtTest>

using namespace orrery::platform;
namespace fs = std::filesystem;

class tst_paths : public QObject {
    Q_OBJECT

private slots:
    void utf8_survives() {
        for (const char* text : {"a/b.gguf", "模型/ä ö.gguf", "🪐", ""})
            QCOMPARE(to_utf8(from_utf8(text)), std::string(text));
    }

#ifndef _WIN32
    void init() {
        for (const char* name : {"XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"})
            qunsetenv(name);
        qputenv("HOME", "/home/somebody");
    }

    void folders_lie_under_home() {
        QCOMPARE(data_folder(), fs::path("/home/somebody/.local/share/orrery"));
        QCOMPARE(config_folder(), fs::path("/home/somebody/.config/orrery"));
        QCOMPARE(cache_folder(), fs::path("/home/somebody/.cache/orrery"));
        QCOMPARE(default_model_path(),
                 fs::path("/home/somebody/.local/share/orrery/models/SmolLM2-135M-Instruct.Q4_1.gguf"));
    }

    void xdg_variables_move_them() {
        qputenv("XDG_DATA_HOME", "/data");
        qputenv("XDG_CONFIG_HOME", "/config");
        qputenv("XDG_CACHE_HOME", "/cache");
        QCOMPARE(data_folder(), fs::path("/data/orrery"));
        QCOMPARE(config_folder(), fs::path("/config/orrery"));
        QCOMPARE(cache_folder(), fs::path("/cache/orrery"));
    }

    // "If an implementation encounters a relative path in any of these variables it should consider the
    // path invalid and ignore it", and the default holds for empty ones too.
    void relative_and_empty_variables_are_ignored() {
        for (const char* value : {"", "relative/folder"}) {
            qputenv("XDG_DATA_HOME", value);
            QCOMPARE(data_folder(), fs::path("/home/somebody/.local/share/orrery"));
        }
    }

    void without_home_the_user_database_is_asked() {
        qunsetenv("HOME");
        QVERIFY(data_folder().is_absolute());
        QVERIFY(data_folder().string().ends_with("/.local/share/orrery"));
    }
#endif
};

QTEST_GUILESS_MAIN(tst_paths)
#include "tst_paths.moc"
