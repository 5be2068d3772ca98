// The syntax tree of a template.
#pragma once

#include "engine/text/jinja/value.h"

#include <memory>
#include <string>
#include <vector>

namespace orrery::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

/// One argument of a call: f(a, b=c, *d, **e)
struct Argument {
    enum class Kind { positional, named, spread, spread_named };
    Kind kind = Kind::positional;
    std::string name;
    ExpressionPtr value;
};

enum class Comparison { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };

struct Expression {
    enum class Kind {
        constant,    ///< constant
        name,        ///< name
        list,        ///< operands
        tuple,       ///< operands
        dict,        ///< operands: key, value, key, value, …
        unary,       ///< name "-", "+" or "not"; operands[0]
        binary,      ///< name "+", "-", "*", "/", "//", "%" or "**"; operands[0], operands[1]
        both,        ///< operands[0] and operands[1]
        either,      ///< operands[0] or operands[1]
        concat,      ///< operands, joined as texts by ~
        compare,     ///< operands[0] comparisons[0] operands[1] comparisons[1] operands[2] …
        conditional, ///< operands[0] if operands[1] else operands[2], which may be missing
        attribute,   ///< operands[0].name
        item,        ///< operands[0][operands[1]]
        slice,       ///< operands[0][operands[1]:operands[2]:operands[3]], any of the last three may be null
        call,        ///< operands[0](arguments)
        filter,      ///< operands[0] | name(arguments); null operand: the text of a block
        test,        ///< operands[0] is name(arguments)
    };

    Kind kind = Kind::constant;
    int line = 1;
    int depth = 1; ///< levels of the tree below and including this node
    std::string name;
    Value constant;
    std::vector<ExpressionPtr> operands;
    std::vector<Argument> arguments;
    std::vector<Comparison> comparisons;
};

/// What an assignment writes to: a name, name.attribute of a namespace, or several of them.
struct Target {
    std::string name;
    std::string attribute;       ///< empty: the name itself
    std::vector<Target> targets; ///< not empty: unpacks
    bool unpacks = false;
};

struct Statement;
using Body = std::vector<Statement>;

struct Parameter {
    std::string name;
    ExpressionPtr fallback; ///< null: undefined when it is not given
};

/// A macro's or a call block's signature, and which of the special names its body uses.
struct Signature {
    std::vector<Parameter> parameters;
    bool uses_varargs = false;
    bool uses_kwargs = false;
    bool uses_caller = false;
};

struct Statement {
    enum class Kind {
        text,   ///< constant
        print,  ///< expression
        branch, ///< for each condition a body; a body more than conditions: else
        loop,   ///< for target in expression if condition; bodies[0], and bodies[1] where there was no item
        set,    ///< set target = expression
        set_block,    ///< set target | filters: bodies[0]
        macro,        ///< macro name(signature): bodies[0]
        call_block,   ///< call(signature) expression: bodies[0]
        filter_block, ///< filter expression: bodies[0]
        with,         ///< with targets = expressions: bodies[0]
        scope,        ///< bodies[0] in a scope of its own (block, generation)
        break_loop,
        continue_loop,
        refuse, ///< statements that need other files: fails when it runs; name says why
    };

    Kind kind = Kind::text;
    int line = 1;
    std::string name;
    Value constant;
    ExpressionPtr expression;
    ExpressionPtr condition;
    std::vector<ExpressionPtr> expressions; ///< conditions of a branch, values of a with
    std::vector<Target> targets;
    Signature signature;
    std::vector<Body> bodies;
    bool recursive = false;
};

} // namespace orrery::jinja
