#include "engine/text/jinja/callable.h"

#include "engine/text/jinja/ast.h"
#include "engine/text/jinja/interpreter.h"
#include "engine/text/jinja/operators.h"
#include "engine/text/jinja/printing.h"

#include <algorithm>

namespace orrery::jinja {

Bound::Bound(std::string_view function, const Arguments& arguments,
             std::initializer_list<std::string_view> parameters, size_t required)
    : function_(function), parameters_(parameters), values_(parameters.size()) {
    if (arguments.positional.size() > parameters_.size())
        throw Fault(function_ + "() takes at most " + std::to_string(parameters_.size()) + " arguments (" +
                    std::to_string(arguments.positional.size()) + " given)");
    for (size_t i = 0; i < arguments.positional.size(); ++i)
        values_[i] = arguments.positional[i];
    for (const auto& [name, value] : arguments.named) {
        const auto found = std::find(parameters_.begin(), parameters_.end(), name);
        if (found == parameters_.end())
            throw Fault(function_ + "() got an unexpected keyword argument '" + name + "'");
        auto& slot = values_[static_cast<size_t>(found - parameters_.begin())];
        if (slot)
            throw Fault(function_ + "() got multiple values for argument '" + name + "'");
        slot = value;
    }
    for (size_t i = 0; i < required; ++i)
        if (!values_[i])
            throw Fault(function_ + "() is missing the argument '" + std::string(parameters_[i]) + "'");
}

const Value& Bound::operator[](size_t parameter) const {
    static const Value none;
    return values_[parameter] ? *values_[parameter] : none;
}

bool Bound::flag(size_t parameter, bool fallback) const {
    return values_[parameter] ? truth(*values_[parameter]) : fallback;
}

Integer Bound::integer(size_t parameter, Integer fallback) const {
    if (!values_[parameter])
        return fallback;
    const Value& value = *values_[parameter];
    if (value.is_undefined())
        use_undefined(value);
    if (!value.is_integral())
        throw Fault(function_ + "(): '" + std::string(parameters_[parameter]) + "' must be an integer, not " +
                    type_name(value));
    // Counts and positions; beyond the ends of everything, and arithmetic with them cannot overflow.
    constexpr Integer bound = Integer(1) << 100;
    return std::clamp(value.integer(), -bound, bound);
}

const Text& Bound::text(size_t parameter) const {
    const Value& value = (*this)[parameter];
    if (value.is_undefined())
        use_undefined(value);
    if (!value.is_string())
        throw Fault(function_ + "(): '" + std::string(parameters_[parameter]) + "' must be str, not " +
                    type_name(value));
    return value.text();
}

Value BoundMethod::call(Interpreter& interpreter, const Arguments& arguments) {
    interpreter.heap().charge_steps(self_.is_string() ? self_.text().size() / 64 : 0);
    return method_(interpreter, self_, arguments);
}

std::string Macro::display() const {
    return "<Macro " + in_quotes(name_) + ">";
}

std::optional<Value> Macro::attribute(std::string_view name) {
    const Signature& signature = statement_.signature;
    if (name == "name")
        return String{std::make_shared<const Text>(name_, true), false};
    if (name == "catch_kwargs")
        return Value(signature.uses_kwargs);
    if (name == "catch_varargs")
        return Value(signature.uses_varargs);
    if (name == "caller")
        return Value(signature.uses_caller);
    return std::nullopt;
}

Value Macro::call(Interpreter& interpreter, const Arguments& arguments) {
    return interpreter.run_macro(statement_, around_, arguments, name_);
}

Loop::Loop(const Statement& statement, std::shared_ptr<Scope> around, std::vector<Value> items, int depth,
           Heap& heap)
    : statement_(statement),
      around_(std::move(around)),
      items_(std::move(items)),
      depth_(depth),
      heap_(heap) {}

bool Loop::advance() {
    if (started_)
        ++at_;
    started_ = true;
    return at_ < items_.size();
}

std::string Loop::display() const {
    return "<LoopContext " + std::to_string(at_ + 1) + "/" + std::to_string(items_.size()) + ">";
}

std::optional<Value> Loop::attribute(std::string_view name) {
    const auto integer = [](size_t value) { return Value(Integer(value)); };
    if (name == "index")
        return integer(at_ + 1);
    if (name == "index0")
        return integer(at_);
    if (name == "first")
        return Value(at_ == 0);
    if (name == "last")
        return Value(at_ + 1 >= items_.size());
    if (name == "length")
        return integer(items_.size());
    if (name == "revindex")
        return Value(Integer(items_.size()) - Integer(at_));
    if (name == "revindex0")
        return Value(Integer(items_.size()) - Integer(at_) - 1);
    if (name == "depth")
        return Value(Integer(depth_ + 1));
    if (name == "depth0")
        return Value(Integer(depth_));
    if (name == "previtem")
        return at_ > 0 ? items_[at_ - 1] : Value::undefined("there is no previous item");
    if (name == "nextitem")
        return at_ + 1 < items_.size() ? items_[at_ + 1] : Value::undefined("there is no next item");
    if (name == "cycle")
        return Value(heap_.make<BoundMethod>(Value(this), name,
                                             [](Interpreter&, const Value& self, const Arguments& arguments) {
                                                 return self.as<Loop>()->cycle(arguments);
                                             }));
    if (name == "changed")
        return Value(heap_.make<BoundMethod>(Value(this), name,
                                             [](Interpreter&, const Value& self, const Arguments& arguments) {
                                                 return Value(self.as<Loop>()->changed(arguments));
                                             }));
    if (name == "__iter__") { // going over `loop` itself uses up the items that are left
        std::vector<Value> rest;
        while (advance())
            rest.push_back(heap_.tuple({current(), Value(this)}));
        at_ = items_.empty() ? 0 : items_.size() - 1;
        return heap_.list(std::move(rest));
    }
    return std::nullopt;
}

Value Loop::call(Interpreter& interpreter, const Arguments& arguments) {
    if (!statement_.recursive)
        throw Fault("the loop must have the 'recursive' marker to be called recursively");
    const Bound bound("loop", arguments, {"iterable"}, 1);
    return interpreter.run_loop(statement_, around_, bound[0], depth_ + 1);
}

Value Loop::cycle(const Arguments& arguments) const {
    if (arguments.positional.empty())
        throw Fault("no items for cycling given");
    return arguments.positional[at_ % arguments.positional.size()];
}

bool Loop::changed(const Arguments& arguments) {
    const auto& now = arguments.positional;
    for (const Value& value : now)
        heap_.charge_steps(weight_of(value));
    const bool same = last_changed_ && last_changed_->size() == now.size() &&
                      std::equal(now.begin(), now.end(), last_changed_->begin(), equals);
    last_changed_ = now;
    return !same;
}

std::optional<Value> Cycler::attribute(std::string_view name) {
    if (name == "current")
        return items_[at_];
    if (name == "next")
        return Value(
            heap_.make<BoundMethod>(Value(this), name, [](Interpreter&, const Value& self, const Arguments&) {
                return self.as<Cycler>()->next();
            }));
    if (name == "reset")
        return Value(
            heap_.make<BoundMethod>(Value(this), name, [](Interpreter&, const Value& self, const Arguments&) {
                self.as<Cycler>()->reset();
                return Value();
            }));
    return std::nullopt;
}

Value Cycler::next() {
    const Value value = items_[at_];
    at_ = (at_ + 1) % items_.size();
    return value;
}

Value Joiner::call(Interpreter& interpreter, const Arguments&) {
    if (!std::exchange(used_, true))
        return interpreter.heap().string(Text());
    return separator_;
}

} // namespace orrery::jinja
