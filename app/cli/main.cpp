// orrery-cli: the engine on a command line. Results go to standard output, everything else to standard
// error. Exit status: 0 success; 1 refused or failed, the whole or one of its lines (one sentence says why);
// 2 usage; 130 ended by Ctrl-C.
#include "app/cli/interrupt.h"
#include "app/cli/verbs.h"
#include "kernels/error.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <csignal>
#include <iostream>

int main(int argc, char** argv) {
    using namespace orrery::cli;

    exit_on_interrupt();
#ifdef SIGPIPE
    std::signal(SIGPIPE, SIG_IGN); // a reader that has gone is an error of writing, with a sentence
#endif

    spdlog::set_default_logger(spdlog::stderr_color_mt("orrery"));
    spdlog::set_pattern("%^%l%$: %v");
    spdlog::set_level(spdlog::level::warn);

    Options options;
    Run run;
    CLI::App app("Orrery: run a language model on this machine and see what its engine does.", "orrery-cli");
    app.require_subcommand(1);
    app.set_version_flag("--version", ORRERY_VERSION);
    for (const auto add : {add_ask, add_generate, add_score, add_tokenize, add_detokenize, add_render,
                           add_inspect, add_bench, add_selftest})
        add(app, options, run);
    for (CLI::App* verb : app.get_subcommands({})) {
        verb->add_flag("--json", options.json, "Print JSON");
        verb->add_flag("-v,--verbose", options.verbose, "Log more on standard error");
    }

    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp& help) {
        return app.exit(help);
    } catch (const CLI::CallForVersion& version) {
        return app.exit(version);
    } catch (const CLI::ParseError& error) {
        std::cerr << "orrery-cli: " << error.what() << " (--help lists what there is)\n";
        return 2;
    }
    if (options.verbose)
        spdlog::set_level(spdlog::level::debug);

    try {
        const int status = run();
        flush_output();
        return status;
    } catch (const orrery::Error& error) {
        std::cerr << "orrery-cli: " << error.what() << '\n';
    } catch (const std::bad_alloc&) {
        std::cerr << "orrery-cli: There is not enough memory.\n";
    } catch (const std::exception& error) {
        std::cerr << "orrery-cli: " << error.what() << '\n';
    }
    return 1;
}
