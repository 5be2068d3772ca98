// Loads models on a thread of its own, one at a time: the one that was asked for last.
//
// A load begins with started() and ends with exactly one of loaded(), failed() and cancelled(). Progress
// comes once a frame. Nothing here ever waits: cancel() ends the load for the window at once, and the thread
// notices when it can.
#pragma once

#include "engine/engine_loop.h"
#include "ui/failure.h"
#include "ui/model_info.h"
#include "ui/worker.h"

#include <QObject>
#include <QString>

#include <memory>

namespace orrery::ui {

class FrameClock;

/// How engines are made; the defaults are the window's.
struct SessionOptions {
    orrery::kernels::BackendKind backend = orrery::kernels::BackendKind::automatic;
    int threads = 0; ///< 0: one per core
    orrery::EngineConfig engine;
};

/// A model and the engine that runs it.
struct LoadedModel {
    std::shared_ptr<orrery::Model> model;
    std::unique_ptr<orrery::EngineLoop> loop;
    ModelInfo info;
};

class ModelLoader : public QObject {
    Q_OBJECT

public:
    /// The clock must live longer.
    explicit ModelLoader(FrameClock* clock, SessionOptions options = {}, QObject* parent = nullptr);
    /// Cancels and does not wait.
    ~ModelLoader() override;

    bool loading() const { return job_ != nullptr; }
    /// What is being loaded; empty where nothing is.
    QString path() const;

    /// Loads a model file, or the folder that holds one. A load in progress is cancelled first.
    void load(const QString& path);
    /// Does nothing where nothing loads.
    void cancel();

    /// Lets go of a model on the loader's thread: the end of its engine waits for the step in progress.
    void dispose(std::shared_ptr<LoadedModel> model);

signals:
    void started(const QString& path);
    void progress(qint64 bytesDone, qint64 bytesTotal);
    /// loading() tells whether another load has taken its place.
    void cancelled(const QString& path);
    void failed(const orrery::ui::LoadFailure& failure);
    void loaded(const std::shared_ptr<orrery::ui::LoadedModel>& model);

private:
    struct Job;
    static void run(Job& job, const SessionOptions& options);
    void finish();
    void setJob(std::shared_ptr<Job> job);
    void reportProgress();

    FrameClock* clock_;
    SessionOptions options_;
    Worker worker_;
    Mailbox mailbox_;
    std::shared_ptr<Job> job_;
    qint64 reportedBytes_ = 0; ///< of the job
};

} // namespace orrery::ui

Q_DECLARE_METATYPE(orrery::ui::LoadFailure)
