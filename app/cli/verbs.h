// The verbs of orrery-cli. Each one adds its subcommand to the command line and returns it; when the
// command line has been parsed and names the verb, `run` is what it does.
#pragma once

#include "app/cli/options.h"

namespace orrery::cli {

void add_ask(CLI::App& app, Options& options, Run& run);
void add_generate(CLI::App& app, Options& options, Run& run);
void add_score(CLI::App& app, Options& options, Run& run);
void add_tokenize(CLI::App& app, Options& options, Run& run);
void add_detokenize(CLI::App& app, Options& options, Run& run);
void add_render(CLI::App& app, Options& options, Run& run);
void add_inspect(CLI::App& app, Options& options, Run& run);
void add_bench(CLI::App& app, Options& options, Run& run);
void add_selftest(CLI::App& app, Options& options, Run& run);

} // namespace orrery::cli
