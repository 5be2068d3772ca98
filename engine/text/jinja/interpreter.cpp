#include "engine/text/jinja/interpreter.h"

#include "engine/text/jinja/attributes.h"
#include "engine/text/jinja/filters.h"
#include "engine/text/jinja/format.h"
#include "engine/text/jinja/functions.h"
#include "engine/text/jinja/json_text.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/printing.h"
#include "engine/text/jinja/tests.h"

#include <algorithm>

namespace orrery::jinja {

Interpreter::Level::Level(Interpreter& interpreter) : depth_(interpreter.depth_) {
    interpreter.heap_.charge_steps(1);
    if (depth_ >= interpreter.heap_.limits().recursion)
        throw Fault("the template calls itself too deep");
    ++depth_;
}

Interpreter::Interpreter(const Limits& limits, std::function<std::tm()> clock)
    : clock_(std::move(clock)), heap_(limits), globals_(std::make_shared<Scope>(nullptr)) {
    add_functions(heap_, *globals_);
}

Text Interpreter::run(const Body& body, const nlohmann::ordered_json& context) {
    if (!context.is_object() && !context.is_null())
        throw Fault("the context of a template must be an object, not " + std::string(context.type_name()));
    const auto variables = std::make_shared<Scope>(globals_);
    for (const auto& [name, value] : context.items())
        variables->set(name, import_json(value, heap_, value.is_string() && name.ends_with("_token")));
    Capture capture(*this);
    execute(body, std::make_shared<Scope>(variables));
    return std::move(capture.text);
}

void Interpreter::write(const Text& text) {
    if (text.size() > heap_.limits().output_bytes - std::min(out_->size(), heap_.limits().output_bytes))
        throw Fault("the template writes more than " + std::to_string(heap_.limits().output_bytes >> 20) +
                    " MiB");
    heap_.charge_steps(text.size() / 64);
    out_->append(text);
}

// --- statements ---

Interpreter::Flow Interpreter::execute(const Body& body, const ScopePtr& scope) {
    for (const Statement& statement : body)
        if (const Flow flow = execute(statement, scope); flow != Flow::next)
            return flow;
    return Flow::next;
}

Interpreter::Flow Interpreter::execute(const Statement& statement, const ScopePtr& scope) {
    const Level level(*this);
    line_ = statement.line;
    switch (statement.kind) {
    case Statement::Kind::text:
        write(statement.constant.text());
        return Flow::next;
    case Statement::Kind::print: {
        const Value value = evaluate(*statement.expression, scope);
        write(value.is_string() ? value.text() : print(value, heap_));
        return Flow::next;
    }
    case Statement::Kind::branch:
        return execute_branch(statement, scope);
    case Statement::Kind::loop:
        return execute_loop(statement, scope, evaluate(*statement.expression, scope), 0);
    case Statement::Kind::set:
        assign(statement.targets.front(), evaluate(*statement.expression, scope), scope);
        return Flow::next;
    case Statement::Kind::set_block:
        return execute_set_block(statement, scope);
    case Statement::Kind::macro:
        scope->set(statement.name, heap_.make<Macro>(statement, scope, statement.name));
        return Flow::next;
    case Statement::Kind::call_block:
        execute_call_block(statement, scope);
        return Flow::next;
    case Statement::Kind::filter_block:
        return execute_filter_block(statement, scope);
    case Statement::Kind::with:
        return execute_with(statement, scope);
    case Statement::Kind::scope:
        return execute(statement.bodies[0], std::make_shared<Scope>(scope));
    case Statement::Kind::break_loop:
        return Flow::stop_loop;
    case Statement::Kind::continue_loop:
        return Flow::continue_loop;
    case Statement::Kind::refuse:
        throw Fault("'" + statement.name + "' needs another file, and a chat template has none");
    }
    return Flow::next;
}

Interpreter::Flow Interpreter::execute_branch(const Statement& statement, const ScopePtr& scope) {
    for (size_t i = 0; i < statement.bodies.size(); ++i)
        if (i == statement.expressions.size() || truth(evaluate(*statement.expressions[i], scope)))
            return execute(statement.bodies[i], scope);
    return Flow::next;
}

Interpreter::Flow Interpreter::execute_loop(const Statement& statement, const ScopePtr& scope,
                                            const Value& iterable, int depth) {
    std::vector<Value> items = iterate(iterable, heap_);
    if (statement.condition) {
        std::vector<Value> kept;
        for (const Value& item : items) {
            const auto inner = std::make_shared<Scope>(scope);
            assign(statement.targets.front(), item, inner);
            if (truth(evaluate(*statement.condition, inner)))
                kept.push_back(item);
        }
        items = std::move(kept);
    }
    if (items.empty())
        return statement.bodies.size() > 1 ? execute(statement.bodies[1], std::make_shared<Scope>(scope))
                                           : Flow::next;
    heap_.check_memory(items.size() * sizeof(Value));
    Loop* loop = heap_.make<Loop>(statement, scope, std::move(items), depth, heap_);
    auto inner = std::make_shared<Scope>(scope);
    bool completed = false; // one round reached its end: only then does Jinja leave out the else
    while (loop->advance()) {
        heap_.charge_steps(1);
        if (inner.use_count() > 1) // a macro of the last round keeps its variables
            inner = std::make_shared<Scope>(scope);
        else
            inner->clear();
        inner->set("loop", loop);
        assign(statement.targets.front(), loop->current(), inner);
        const Flow flow = execute(statement.bodies[0], inner);
        if (flow == Flow::stop_loop)
            break;
        completed |= flow == Flow::next;
    }
    if (!completed && statement.bodies.size() > 1)
        return execute(statement.bodies[1], std::make_shared<Scope>(scope));
    return Flow::next;
}

Value Interpreter::run_loop(const Statement& loop, const ScopePtr& around, const Value& items, int depth) {
    const Level level(*this);
    Capture capture(*this);
    execute_loop(loop, around, items, depth);
    return heap_.string(std::move(capture.text));
}

Interpreter::Flow Interpreter::execute_set_block(const Statement& statement, const ScopePtr& scope) {
    Value value;
    {
        Capture capture(*this);
        const Flow flow = execute(statement.bodies[0], std::make_shared<Scope>(scope));
        if (flow != Flow::next)
            return flow;
        value = heap_.string(std::move(capture.text));
    }
    if (statement.expression)
        value = evaluate_filters(*statement.expression, scope, value);
    assign(statement.targets.front(), value, scope);
    return Flow::next;
}

Interpreter::Flow Interpreter::execute_filter_block(const Statement& statement, const ScopePtr& scope) {
    Value text;
    {
        Capture capture(*this);
        const Flow flow = execute(statement.bodies[0], std::make_shared<Scope>(scope));
        if (flow != Flow::next)
            return flow;
        text = heap_.string(std::move(capture.text));
    }
    write(print(evaluate_filters(*statement.expression, scope, text), heap_));
    return Flow::next;
}

void Interpreter::execute_call_block(const Statement& statement, const ScopePtr& scope) {
    const Expression& call_expression = *statement.expression;
    const Value callee = evaluate(*call_expression.operands[0], scope);
    Arguments given = evaluate_arguments(call_expression.arguments, scope);
    given.named.emplace_back("caller", heap_.make<Macro>(statement, scope, "caller"));
    const Value result = call(callee, std::move(given));
    write(print(result, heap_));
}

Interpreter::Flow Interpreter::execute_with(const Statement& statement, const ScopePtr& scope) {
    std::vector<Value> values;
    for (const ExpressionPtr& expression : statement.expressions)
        values.push_back(evaluate(*expression, scope));
    const auto inner = std::make_shared<Scope>(scope);
    for (size_t i = 0; i < values.size(); ++i)
        assign(statement.targets[i], values[i], inner);
    return execute(statement.bodies[0], inner);
}

void Interpreter::assign(const Target& target, const Value& value, const ScopePtr& scope) {
    if (target.unpacks) {
        const std::vector<Value> items = iterate(value, heap_);
        if (items.size() != target.targets.size())
            throw Fault((items.size() < target.targets.size() ? "not enough" : "too many") +
                        std::string(" values to unpack (expected ") + std::to_string(target.targets.size()) +
                        ", got " + std::to_string(items.size()) + ")");
        for (size_t i = 0; i < items.size(); ++i)
            assign(target.targets[i], items[i], scope);
    } else if (target.attribute.empty()) {
        scope->set(target.name, value);
    } else {
        const Value* object = scope->find(target.name);
        auto* space = object ? object->as<Namespace>() : nullptr;
        if (!space)
            throw Fault("an attribute can be set on a namespace only, and '" + target.name + "' is none");
        space->set(target.attribute, value);
    }
}

// --- calls ---

Value Interpreter::call(const Value& callee, Arguments arguments) {
    const Level level(*this);
    if (callee.is_undefined())
        use_undefined(callee);
    auto* callable = callee.as<Callable>();
    if (!callable)
        throw Fault("'" + type_name(callee) + "' object is not callable");
    return callable->call(*this, arguments);
}

Value Interpreter::run_macro(const Statement& macro, const ScopePtr& around, Arguments arguments,
                             const std::string& name) {
    const Signature& signature = macro.signature;
    const auto scope = std::make_shared<Scope>(around);
    const auto take_named = [&](const std::string& wanted) -> std::optional<Value> {
        for (auto it = arguments.named.begin(); it != arguments.named.end(); ++it)
            if (it->first == wanted) {
                const Value value = it->second;
                arguments.named.erase(it);
                return value;
            }
        return std::nullopt;
    };
    bool declares_caller = false;
    for (size_t i = 0; i < signature.parameters.size(); ++i) {
        const Parameter& parameter = signature.parameters[i];
        declares_caller |= parameter.name == "caller";
        std::optional<Value> given;
        if (i < arguments.positional.size())
            given = arguments.positional[i];
        else
            given = take_named(parameter.name);
        if (given)
            scope->set(parameter.name, *given);
        else if (parameter.fallback)
            scope->set(parameter.name, evaluate(*parameter.fallback, scope));
        else
            scope->set(parameter.name,
                       Value::undefined("parameter '" + parameter.name + "' was not provided"));
    }
    if (signature.uses_caller && !declares_caller) {
        const auto caller = take_named("caller");
        scope->set("caller", caller ? *caller : Value::undefined("No caller defined"));
    }
    if (signature.uses_kwargs) {
        scope->set("kwargs", heap_.dict([&](Dict& dict) {
            for (const auto& [key, value] : arguments.named)
                dict.set(heap_.string(key), value);
        }));
    } else if (!arguments.named.empty()) {
        throw Fault("macro '" + name + "' takes no keyword argument '" + arguments.named.front().first + "'");
    }
    const size_t expected = signature.parameters.size();
    if (signature.uses_varargs) {
        std::vector<Value> rest;
        for (size_t i = expected; i < arguments.positional.size(); ++i)
            rest.push_back(arguments.positional[i]);
        scope->set("varargs", heap_.tuple(std::move(rest)));
    } else if (arguments.positional.size() > expected) {
        throw Fault("macro '" + name + "' takes not more than " + std::to_string(expected) + " argument(s)");
    }
    Capture capture(*this);
    execute(macro.bodies[0], scope);
    return heap_.string(std::move(capture.text));
}

Arguments Interpreter::evaluate_arguments(const std::vector<Argument>& arguments, const ScopePtr& scope) {
    Arguments given;
    for (const Argument& argument : arguments) {
        Value value = evaluate(*argument.value, scope);
        switch (argument.kind) {
        case Argument::Kind::positional:
            given.positional.push_back(std::move(value));
            break;
        case Argument::Kind::named:
            given.named.emplace_back(argument.name, std::move(value));
            break;
        case Argument::Kind::spread:
            for (Value& item : iterate(value, heap_))
                given.positional.push_back(std::move(item));
            break;
        case Argument::Kind::spread_named: {
            const Dict* dict = value.dict();
            if (!dict)
                throw Fault("argument after ** must be a mapping, not " + type_name(value));
            for (const auto& [key, item] : dict->entries()) {
                if (!key.is_string())
                    throw Fault("keywords must be strings");
                heap_.charge_steps(given.named.size() / 8);
                for (const auto& other : given.named)
                    if (other.first == key.bytes())
                        throw Fault("the argument '" + key.bytes() + "' is given twice");
                given.named.emplace_back(key.bytes(), item);
            }
            break;
        }
        }
    }
    return given;
}

Value Interpreter::attribute(const Value& object, std::string_view name) {
    if (object.is_undefined())
        use_undefined(object);
    if (auto found = python_attribute(*this, object, name))
        return *found;
    if (const Dict* dict = object.dict())
        if (const Value* value = dict->find(name))
            return *value;
    return Value::undefined("'" + type_name(object) + " object' has no attribute " + in_quotes(name));
}

Value Interpreter::item(const Value& object, const Value& key) {
    heap_.charge_steps(weight_of(key));
    if (object.is_undefined())
        use_undefined(object);
    if (const Dict* dict = object.dict()) {
        const bool hashable =
            !key.dict() && !(key.sequence() && key.sequence()->kind() == Sequence::Kind::list);
        if (const Value* value = hashable ? dict->find(key) : nullptr)
            return *value;
    } else if (key.is_integral()) {
        if (object.is_string()) {
            const Text& text = object.text();
            heap_.charge_steps(1 + text.size() / 8);
            if (text.is_ascii()) {
                if (const auto at = index_within(key.integer(), text.size()))
                    return heap_.string(text.substr(*at, 1), object.is_markup());
            } else {
                heap_.check_memory(sizeof(size_t) * text.size());
                const auto offsets = text.offsets();
                if (const auto at = index_within(key.integer(), offsets.size() - 1))
                    return heap_.string(text.substr(offsets[*at], offsets[*at + 1] - offsets[*at]),
                                        object.is_markup());
            }
        } else if (const Sequence* sequence = object.sequence(); sequence && sequence->has_index()) {
            if (const auto at = index_within(key.integer(), sequence->items().size()))
                return sequence->items()[*at];
        }
    }
    if (key.is_string()) {
        if (auto found = python_attribute(*this, object, key.bytes()))
            return *found;
        return Value::undefined("'" + type_name(object) + " object' has no attribute " +
                                in_quotes(key.bytes()));
    }
    return Value::undefined(type_name(object) + " object has no element " + represent(key, heap_).bytes());
}

// --- expressions ---

Value Interpreter::evaluate(const Expression& expression, const ScopePtr& scope) {
    const Level level(*this);
    using Kind = Expression::Kind;
    const auto& operands = expression.operands;
    switch (expression.kind) {
    case Kind::constant:
        return expression.constant;
    case Kind::name:
        return evaluate_name(expression, scope);
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
        return evaluate_container(expression, scope);
    case Kind::unary: {
        const Value value = evaluate(*operands[0], scope);
        if (expression.name == "not")
            return Value(!truth(value));
        return expression.name == "-" ? negate(value) : posit(value);
    }
    case Kind::binary:
        return evaluate_binary(expression, scope);
    case Kind::both: {
        Value left = evaluate(*operands[0], scope);
        return truth(left) ? evaluate(*operands[1], scope) : left;
    }
    case Kind::either: {
        Value left = evaluate(*operands[0], scope);
        return truth(left) ? left : evaluate(*operands[1], scope);
    }
    case Kind::concat: {
        Text joined;
        for (const ExpressionPtr& operand : operands) {
            joined.append(print(evaluate(*operand, scope), heap_));
            heap_.check_memory(2 * joined.size());
        }
        return heap_.string(std::move(joined));
    }
    case Kind::compare:
        return Value(evaluate_comparison(expression, scope));
    case Kind::conditional:
        return evaluate_conditional(expression, scope);
    case Kind::attribute: {
        const Value object = evaluate(*operands[0], scope);
        line_ = expression.line;
        return attribute(object, expression.name);
    }
    case Kind::item: {
        const Value object = evaluate(*operands[0], scope);
        const Value key = evaluate(*operands[1], scope);
        line_ = expression.line;
        return item(object, key);
    }
    case Kind::slice:
        return evaluate_slice(expression, scope);
    case Kind::call: {
        const Value callee = evaluate(*operands[0], scope);
        Arguments given = evaluate_arguments(expression.arguments, scope);
        line_ = expression.line;
        return call(callee, std::move(given));
    }
    case Kind::filter:
        return evaluate_filters(expression, scope, Value());
    case Kind::test: {
        const Value value = evaluate(*operands[0], scope);
        Arguments given = evaluate_arguments(expression.arguments, scope);
        line_ = expression.line;
        return Value(test(expression.name, value, std::move(given)));
    }
    }
    return Value();
}

Value Interpreter::evaluate_name(const Expression& expression, const ScopePtr& scope) {
    if (const Value* value = scope->find(expression.name))
        return *value;
    return Value::undefined("'" + expression.name + "' is undefined");
}

Value Interpreter::evaluate_container(const Expression& expression, const ScopePtr& scope) {
    std::vector<Value> values;
    for (const ExpressionPtr& operand : expression.operands)
        values.push_back(evaluate(*operand, scope));
    if (expression.kind == Expression::Kind::list)
        return heap_.list(std::move(values));
    if (expression.kind == Expression::Kind::tuple)
        return heap_.tuple(std::move(values));
    return heap_.dict([&](Dict& dict) {
        for (size_t i = 0; i + 1 < values.size(); i += 2) {
            heap_.charge_steps(weight_of(values[i]));
            dict.set(values[i], values[i + 1]);
        }
    });
}

Value Interpreter::evaluate_binary(const Expression& expression, const ScopePtr& scope) {
    const Value a = evaluate(*expression.operands[0], scope);
    const Value b = evaluate(*expression.operands[1], scope);
    line_ = expression.line;
    const std::string& op = expression.name;
    if (op == "+")
        return add(a, b, heap_);
    if (op == "-")
        return subtract(a, b);
    if (op == "*")
        return multiply(a, b, heap_);
    if (op == "/")
        return divide(a, b);
    if (op == "//")
        return floor_divide(a, b);
    if (op == "**")
        return power(a, b);
    return a.is_string() ? percent_format(*this, a, b) : modulo(a, b);
}

bool Interpreter::compare(Comparison op, const Value& a, const Value& b) {
    heap_.charge_steps(comparison_cost(a, b));
    switch (op) {
    case Comparison::equal:
        return equals(a, b);
    case Comparison::not_equal:
        return !equals(a, b);
    case Comparison::less:
        return less(a, b, "<");
    case Comparison::less_equal:
        return less_or_equal(a, b, "<=");
    case Comparison::greater:
        return less(b, a, ">");
    case Comparison::greater_equal:
        return less_or_equal(b, a, ">=");
    case Comparison::in:
        return contains(b, a, heap_);
    case Comparison::not_in:
        return !contains(b, a, heap_);
    }
    return false;
}

bool Interpreter::evaluate_comparison(const Expression& expression, const ScopePtr& scope) {
    Value left = evaluate(*expression.operands[0], scope);
    for (size_t i = 0; i < expression.comparisons.size(); ++i) {
        Value right = evaluate(*expression.operands[i + 1], scope);
        line_ = expression.line;
        if (!compare(expression.comparisons[i], left, right))
            return false;
        left = std::move(right);
    }
    return true;
}

Value Interpreter::evaluate_conditional(const Expression& expression, const ScopePtr& scope) {
    if (truth(evaluate(*expression.operands[1], scope)))
        return evaluate(*expression.operands[0], scope);
    if (expression.operands[2])
        return evaluate(*expression.operands[2], scope);
    return Value::undefined("the inline if-expression in line " + std::to_string(expression.line) +
                            " is false and has no else");
}

namespace {

bool is_constant(const Expression& expression) {
    using Kind = Expression::Kind;
    if (expression.kind == Kind::constant)
        return true;
    const bool container = expression.kind == Kind::list || expression.kind == Kind::tuple ||
                           expression.kind == Kind::dict || expression.kind == Kind::unary;
    return container && std::all_of(expression.operands.begin(), expression.operands.end(),
                                    [](const ExpressionPtr& operand) { return is_constant(*operand); });
}

} // namespace

Value Interpreter::evaluate_slice(const Expression& expression, const ScopePtr& scope) {
    const Value object = evaluate(*expression.operands[0], scope);
    Value bounds[3];
    for (size_t i = 0; i < 3; ++i)
        if (expression.operands[i + 1])
            bounds[i] = evaluate(*expression.operands[i + 1], scope);
    line_ = expression.line;
    const Value result = slice(object, bounds[0], bounds[1], bounds[2], heap_);
    // Jinja works out slices of constants when it reads the template, and is more lenient then.
    const bool constant =
        std::all_of(expression.operands.begin(), expression.operands.end(),
                    [](const ExpressionPtr& operand) { return !operand || is_constant(*operand); });
    if (result.is_undefined() && !constant)
        use_undefined(result);
    return result;
}

Value Interpreter::evaluate_filters(const Expression& expression, const ScopePtr& scope,
                                    const Value& block_text) {
    const Expression* operand = expression.operands[0].get();
    Value input = block_text;
    if (operand)
        input = operand->kind == Expression::Kind::filter ? evaluate_filters(*operand, scope, block_text)
                                                          : evaluate(*operand, scope);
    Arguments given = evaluate_arguments(expression.arguments, scope);
    line_ = expression.line;
    return filter(expression.name, input, std::move(given));
}

Value Interpreter::filter(const std::string& name, const Value& input, Arguments arguments) {
    const Level level(*this);
    heap_.charge_steps(input.is_string() ? input.text().size() / 64 : 0);
    const Method function = find_filter(name);
    if (!function)
        throw Fault("there is no filter named '" + name + "'");
    return function(*this, input, arguments);
}

bool Interpreter::test(const std::string& name, const Value& input, Arguments arguments) {
    const Level level(*this);
    heap_.charge_steps(input.is_string() ? input.text().size() / 64 : 0);
    const Test function = find_test(name);
    if (!function)
        throw Fault("there is no test named '" + name + "'");
    return function(*this, input, arguments);
}

} // namespace orrery::jinja
