// Runs a syntax tree: scopes, statements, expressions, calls.
#pragma once

#include "engine/text/jinja/ast.h"
#include "engine/text/jinja/callable.h"
#include "engine/text/jinja/scope.h"

#include <nlohmann/json.hpp>

#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::jinja {

class Interpreter {
public:
    Interpreter(const Limits& limits, std::function<std::tm()> clock);

    /// Renders a template. Throws Fault; line() then says where.
    Text run(const Body& body, const nlohmann::ordered_json& context);
    int line() const { return line_; }

    // What filters, tests and methods need.
    Heap& heap() { return heap_; }
    std::tm now() const { return clock_(); }
    Value call(const Value& callee, Arguments arguments);
    /// object.name: a method or attribute first, then an entry of that name.
    Value attribute(const Value& object, std::string_view name);
    /// object[key]: an entry first, then an attribute of that name.
    Value item(const Value& object, const Value& key);
    Value filter(const std::string& name, const Value& input, Arguments arguments);
    bool test(const std::string& name, const Value& input, Arguments arguments);

    // What macros and recursive loops need.
    Value run_macro(const Statement& macro, const ScopePtr& around, Arguments arguments,
                    const std::string& name);
    Value run_loop(const Statement& loop, const ScopePtr& around, const Value& items, int depth);

private:
    enum class Flow { next, stop_loop, continue_loop };

    /// Counts nested evaluations for as long as it lives.
    class Level {
    public:
        explicit Level(Interpreter& interpreter);
        ~Level() { --depth_; }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;

    private:
        int& depth_;
    };

    /// Lets what is printed go to another text for as long as it lives.
    class Capture {
    public:
        explicit Capture(Interpreter& interpreter) : interpreter_(interpreter), around_(interpreter.out_) {
            interpreter.out_ = &text;
        }
        ~Capture() { interpreter_.out_ = around_; }
        Capture(const Capture&) = delete;
        Capture& operator=(const Capture&) = delete;

        Text text;

    private:
        Interpreter& interpreter_;
        Text* around_;
    };

    Flow execute(const Body& body, const ScopePtr& scope);
    Flow execute(const Statement& statement, const ScopePtr& scope);
    Flow execute_branch(const Statement& statement, const ScopePtr& scope);
    Flow execute_loop(const Statement& statement, const ScopePtr& scope, const Value& items, int depth);
    Flow execute_set_block(const Statement& statement, const ScopePtr& scope);
    Flow execute_filter_block(const Statement& statement, const ScopePtr& scope);
    void execute_call_block(const Statement& statement, const ScopePtr& scope);
    Flow execute_with(const Statement& statement, const ScopePtr& scope);
    void assign(const Target& target, const Value& value, const ScopePtr& scope);
    void write(const Text& text);

    Value evaluate(const Expression& expression, const ScopePtr& scope);
    Value evaluate_name(const Expression& expression, const ScopePtr& scope);
    Value evaluate_binary(const Expression& expression, const ScopePtr& scope);
    bool evaluate_comparison(const Expression& expression, const ScopePtr& scope);
    bool compare(Comparison op, const Value& a, const Value& b);
    Value evaluate_conditional(const Expression& expression, const ScopePtr& scope);
    Value evaluate_container(const Expression& expression, const ScopePtr& scope);
    Value evaluate_slice(const Expression& expression, const ScopePtr& scope);
    Value evaluate_filters(const Expression& expression, const ScopePtr& scope, const Value& block_text);
    Arguments evaluate_arguments(const std::vector<Argument>& arguments, const ScopePtr& scope);

    std::function<std::tm()> clock_;
    Heap heap_;
    ScopePtr globals_;
    Text* out_ = nullptr;
    int depth_ = 0;
    int line_ = 1;
};

} // namespace orrery::jinja
