import type { ASTNode, ASTOperator } from "@marcbachmann/cel-js";
import { AppError } from "../../platform/errors/app-error.ts";
import { type Evaluation, failed } from "./evaluation.ts";
import { FUNCTIONS, METHODS } from "./functions.ts";
import { compare, isEqual, isList, isNumeric, type Value } from "./value.ts";

/** Computes the value of a part of an expression. */
export type Run = (evaluation: Evaluation) => Value;

type Compile = (node: ASTNode, names: ReadonlySet<string>) => Run;

/** Part of an expression that is being compiled. `names` are the variables that it may read. */
type Compiling<Operator extends ASTOperator> = {
  node: Extract<ASTNode, { op: Operator }>;
  names: ReadonlySet<string>;
  compile: Compile;
};

type Operators = { readonly [Operator in ASTOperator]?: (compiling: Compiling<Operator>) => Run };

/**
 * Operators that an expression may use. Arithmetic is not supported, so that no expression can compute a value that is
 * much larger than the request.
 */
const OPERATORS_BY_NAME: Operators = {
  value({ node: { args: literal, input } }) {
    if (typeof literal !== "object" || literal === null) return () => literal;
    throw new Error(`must not contain bytes or unsigned numbers: ${input}`);
  },
  id({ node: { args: name }, names }) {
    if (!names.has(name)) throw new Error(`must not use ${name} as a value`);
    return (evaluation) => evaluation.variable(name);
  },
  "."({ node, names, compile }) {
    const [of, name] = node.args;
    const object = compile(of, names);
    return (evaluation) => member(object(evaluation), name, node);
  },
  "[]"({ node, names, compile }) {
    const [object, key] = node.args.map((each) => compile(each, names)) as [Run, Run];
    return (evaluation) => member(object(evaluation), key(evaluation), node);
  },
  list({ node: { args }, names, compile }) {
    const elements = args.map((each) => compile(each, names));
    return (evaluation) => elements.map((element) => element(evaluation));
  },
  "?:"({ node: { args }, names, compile }) {
    const condition = compileCondition(args[0], { names, compile });
    const [, then, otherwise] = args.map((each) => compile(each, names)) as [Run, Run, Run];
    return (evaluation) => (condition(evaluation) ? then : otherwise)(evaluation);
  },
  "||": ({ node: { args }, ...rest }) => decidedBy(true, args, rest),
  "&&": ({ node: { args }, ...rest }) => decidedBy(false, args, rest),
  "!_"({ node: { args }, ...rest }) {
    const condition = compileCondition(args, rest);
    return (evaluation) => !condition(evaluation);
  },
  "-_"({ node, names, compile }) {
    const operand = compile(node.args, names);
    return (evaluation) => {
      const value = operand(evaluation);
      if (isNumeric(value)) return -value;
      throw mistyped(node);
    };
  },
  "==": (compiling) => binary(compiling, (a, b, { spendText }) => isEqual(a, b, spendText)),
  "!=": (compiling) => binary(compiling, (a, b, { spendText }) => !isEqual(a, b, spendText)),
  "<": (compiling) => ordered(compiling, (order) => order < 0),
  "<=": (compiling) => ordered(compiling, (order) => order <= 0),
  ">": (compiling) => ordered(compiling, (order) => order > 0),
  ">=": (compiling) => ordered(compiling, (order) => order >= 0),
  in: (compiling) =>
    binary(compiling, (value, values, { spendText }) => {
      if (values instanceof Map) return typeof value === "string" && values.has(value);
      if (!isList(values)) throw mistyped(compiling.node);
      return values.some((each) => isEqual(value, each, spendText));
    }),
  call({ node, names, compile }) {
    const [name, [argument, ...more]] = node.args;
    if (name === "has" && argument?.op === ".") return has(argument, { names, compile });
    const call = Object.hasOwn(FUNCTIONS, name) ? FUNCTIONS[name] : undefined;
    if (call === undefined || argument === undefined || more.length > 0)
      throw new Error(`must not use the function ${name}`);
    const operand = compile(argument, names);
    return (evaluation) => call(operand(evaluation), evaluation) ?? fail(node);
  },
  rcall({ node, names, compile }) {
    const [name, receiver, [argument, ...more]] = node.args;
    const loop = Object.hasOwn(LOOPS, name) ? LOOPS[name] : undefined;
    if (loop !== undefined) return looping(loop, { node, names, compile });
    const call = Object.hasOwn(METHODS, name) ? METHODS[name] : undefined;
    if (call === undefined || more.length > 0) throw new Error(`must not use the function ${name}`);
    const on = compile(receiver, names);
    const operand = argument && compile(argument, names);
    return (evaluation) => call(on(evaluation), operand?.(evaluation), evaluation) ?? fail(node);
  },
};

/** Compilers of the parts of an expression, by operator. */
export const OPERATORS = OPERATORS_BY_NAME as Readonly<
  Partial<
    Record<ASTOperator, (compiling: { node: ASTNode; names: ReadonlySet<string>; compile: Compile }) => Run>
  >
>;

type Scope = { names: ReadonlySet<string>; compile: Compile };

/** Returns the source text of a part of the expression. It may be logged, because it contains no value of a request. */
function sourceOf({ input, start, end }: ASTNode): string {
  return input.slice(start, end);
}

function mistyped(node: ASTNode): AppError {
  return failed(`${sourceOf(node)} has a value of the wrong type`);
}

function fail(node: ASTNode): never {
  throw mistyped(node);
}

function member(object: Value, key: Value, node: ASTNode): Value {
  const found = memberOf(object, key);
  if (found === undefined) throw failed(`${sourceOf(node)} is missing`);
  return found;
}

function memberOf(object: Value, key: Value): Value | undefined {
  if (object instanceof Map) return typeof key === "string" ? object.get(key) : undefined;
  return isList(object) && isNumeric(key) ? object[Number(key)] : undefined;
}

/**
 * Compiles `has(body.a.b)`, which is true if the last member of the path (`b`) exists. The object before it (`body.a`)
 * must exist.
 */
function has(node: Extract<ASTNode, { op: "." }>, { names, compile }: Scope): Run {
  const [of, name] = node.args;
  const object = compile(of, names);
  return (evaluation) => {
    const value = object(evaluation);
    if (value instanceof Map) return value.has(name);
    throw mistyped(of);
  };
}

function compileCondition(node: ASTNode, { names, compile }: Scope): (evaluation: Evaluation) => boolean {
  const run = compile(node, names);
  return (evaluation) => {
    const value = run(evaluation);
    if (typeof value === "boolean") return value;
    throw failed(`${sourceOf(node)} is not true or false`);
  };
}

/**
 * Compiles `&&` or `||`. If one operand has the value `decisive`, that is the result, even if the other operand fails
 * with an error.
 */
function decidedBy(decisive: boolean, operands: readonly [ASTNode, ASTNode], scope: Scope): Run {
  const [left, right] = operands.map((each) => compileCondition(each, scope)) as [
    (evaluation: Evaluation) => boolean,
    (evaluation: Evaluation) => boolean,
  ];
  return (evaluation) => {
    const first = evaluation.attempt(() => left(evaluation));
    if (first === decisive || right(evaluation) === decisive) return decisive;
    if (first instanceof AppError) throw first;
    return !decisive;
  };
}

type Binary = Extract<ASTNode, { args: [ASTNode, ASTNode] }>;

function binary(
  { node, names, compile }: Scope & { node: Binary },
  operate: (left: Value, right: Value, evaluation: Evaluation) => Value,
): Run {
  const [left, right] = node.args.map((each) => compile(each, names)) as [Run, Run];
  return (evaluation) => operate(left(evaluation), right(evaluation), evaluation);
}

function ordered(compiling: Scope & { node: Binary }, holds: (order: number) => boolean): Run {
  return binary(compiling, (left, right, { spendText }) => {
    const order = compare(left, right, spendText);
    if (order === undefined) throw mistyped(compiling.node);
    return holds(order);
  });
}

type Loop = (items: readonly Value[], test: (item: Value) => boolean, evaluation: Evaluation) => Value;

/** Loops over a list, or over the member names of an object. */
const LOOPS: Readonly<Record<string, Loop>> = {
  exists: (items, test, evaluation) => decidedByOne(true, items, test, evaluation),
  all: (items, test, evaluation) => decidedByOne(false, items, test, evaluation),
  filter: (items, test) => items.filter(test),
};

/**
 * Evaluates `exists` or `all`. If the condition has the value `decisive` for one element, that is the result, even if
 * the condition fails with an error for other elements.
 */
function decidedByOne(
  decisive: boolean,
  items: readonly Value[],
  test: (item: Value) => boolean,
  evaluation: Evaluation,
): boolean {
  let failure: AppError | undefined;
  for (const item of items) {
    const result = evaluation.attempt(() => test(item));
    if (result === decisive) return decisive;
    if (result instanceof AppError) failure ??= result;
  }
  if (failure !== undefined) throw failure;
  return !decisive;
}

function looping(loop: Loop, { node, names, compile }: Compiling<"rcall">): Run {
  const [, receiver, [variable, predicate]] = node.args;
  const on = compile(receiver, names);
  if (variable?.op !== "id" || predicate === undefined) throw new Error("must name the variable of a loop");
  const name = variable.args;
  const condition = compileCondition(predicate, { names: new Set([...names, name]), compile });
  return (evaluation) => {
    const range = on(evaluation);
    const items = range instanceof Map ? namesOf(range, evaluation) : range;
    if (!isList(items)) throw mistyped(node);
    const { locals } = evaluation;
    const outer = locals.get(name);
    const test = (item: Value): boolean => {
      locals.set(name, item);
      return condition(evaluation);
    };
    try {
      return loop(items, test, evaluation);
    } finally {
      if (outer === undefined) locals.delete(name);
      else locals.set(name, outer);
    }
  };
}

function namesOf(object: ReadonlyMap<string, Value>, evaluation: Evaluation): readonly string[] {
  evaluation.spend(object.size);
  return [...object.keys()];
}
