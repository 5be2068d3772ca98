#include "engine/text_engine.h"

#include <iostream>

int main(int, char** argv) {
    using namespace orrery;
    TextEngine engine(load_model(argv[1]));
    for (const char* prompt : {"The capital of France is", "Once upon a time", "1, 2, 3,"})
        engine.add_request(prompt, {.temperature = 0}, 24);
    while (engine.has_unfinished_requests())
        for (const TextOutput& output : engine.step())
            if (output.finish != FinishReason::none)
                std::cout << output.request << ": " << output.text << '\n';
}
