// What a template can call: functions, methods, macros, loops; and how arguments find their parameters.
#pragma once

#include "engine/text/jinja/value.h"

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace orrery::jinja {

class Interpreter;
class Scope;
struct Statement;

/// The values of a call's arguments.
struct Arguments {
    std::vector<Value> positional;
    std::vector<std::pair<std::string, Value>> named;
};

/// Arguments by the names of a function's parameters, as Python binds them. Throws Fault where there are too
/// many or too few, or one is unknown or given twice.
class Bound {
public:
    Bound(std::string_view function, const Arguments& arguments,
          std::initializer_list<std::string_view> parameters, size_t required = 0);

    bool has(size_t parameter) const { return values_[parameter].has_value(); }
    /// The argument, or none where it is not given.
    const Value& operator[](size_t parameter) const;
    bool flag(size_t parameter, bool fallback) const;
    Integer integer(size_t parameter, Integer fallback) const;
    /// The argument's text. Throws Fault where it is no text.
    const Text& text(size_t parameter) const;

private:
    std::string function_;
    std::vector<std::string_view> parameters_;
    std::vector<std::optional<Value>> values_;
};

class Callable : public Object {
public:
    virtual Value call(Interpreter& interpreter, const Arguments& arguments) = 0;
};

using Function = Value (*)(Interpreter&, const Arguments&);
using Method = Value (*)(Interpreter&, const Value& self, const Arguments&);

class BuiltinFunction : public Callable {
public:
    BuiltinFunction(std::string name, Function function) : name_(std::move(name)), function_(function) {}
    std::string python_name() const override { return "function"; }
    std::string display() const override { return "<function " + name_ + ">"; }
    Value call(Interpreter& interpreter, const Arguments& arguments) override {
        return function_(interpreter, arguments);
    }

private:
    std::string name_;
    Function function_;
};

class BoundMethod : public Callable {
public:
    BoundMethod(Value self, std::string_view name, Method method)
        : self_(std::move(self)), name_(name), method_(method) {}
    std::string python_name() const override { return "builtin_function_or_method"; }
    std::string display() const override { return "<built-in method " + name_ + ">"; }
    Value call(Interpreter& interpreter, const Arguments& arguments) override;

private:
    Value self_;
    std::string name_;
    Method method_;
};

/// A macro or the caller() of a call block, with the scope in which it was written.
class Macro : public Callable {
public:
    Macro(const Statement& statement, std::shared_ptr<Scope> around, std::string name)
        : statement_(statement), around_(std::move(around)), name_(std::move(name)) {}
    std::string python_name() const override { return "Macro"; }
    std::string display() const override;
    std::optional<Value> attribute(std::string_view name) override;
    Value call(Interpreter& interpreter, const Arguments& arguments) override;

private:
    const Statement& statement_;
    std::shared_ptr<Scope> around_;
    std::string name_;
};

/// `loop` inside of a for; calling it renders the loop again with other items.
class Loop : public Callable {
public:
    Loop(const Statement& statement, std::shared_ptr<Scope> around, std::vector<Value> items, int depth,
         Heap& heap);

    /// Goes to the next item; false behind the last one.
    bool advance();
    const Value& current() const { return items_[at_]; }

    std::string python_name() const override { return "LoopContext"; }
    std::string display() const override;
    std::optional<Value> attribute(std::string_view name) override;
    Value call(Interpreter& interpreter, const Arguments& arguments) override;

    Value cycle(const Arguments& arguments) const;
    bool changed(const Arguments& arguments);

private:
    const Statement& statement_;
    std::shared_ptr<Scope> around_;
    std::vector<Value> items_;
    int depth_;
    Heap& heap_;
    size_t at_ = 0;
    bool started_ = false;
    std::optional<std::vector<Value>> last_changed_;
};

/// cycler("odd", "even")
class Cycler : public Object {
public:
    Cycler(std::vector<Value> items, Heap& heap) : items_(std::move(items)), heap_(heap) {}
    std::string python_name() const override { return "Cycler"; }
    std::optional<Value> attribute(std::string_view name) override;
    Value next();
    void reset() { at_ = 0; }

private:
    std::vector<Value> items_;
    Heap& heap_;
    size_t at_ = 0;
};

/// joiner(", "): nothing at the first call, the separator at all others.
class Joiner : public Callable {
public:
    explicit Joiner(Value separator) : separator_(std::move(separator)) {}
    std::string python_name() const override { return "Joiner"; }
    Value call(Interpreter& interpreter, const Arguments& arguments) override;

private:
    Value separator_;
    bool used_ = false;
};

} // namespace orrery::jinja
