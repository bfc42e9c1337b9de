import { type ASTNode, Environment } from "@marcbachmann/cel-js";
import { Evaluation, failed, type RequestHeaders } from "./evaluation.ts";
import { OPERATORS, type Run } from "./operators.ts";

/*
 * The key `when` of an endpoint: an expression in CEL. The library cel-js only parses it and checks its types. The code
 * in this folder evaluates it. The library's own evaluation has no limit on time, and its function `matches` may take
 * exponential time. It also stores a type for each new shape of a body, so its memory grows.
 */

/**
 * Returns whether the endpoint handles a request: the value of its expression for this request. Throws
 * `webhook.filter_failed`.
 */
export type Filter = (req: RequestHeaders, body: Buffer) => boolean;

const CEL = new Environment()
  .registerVariable("body", "dyn")
  .registerVariable("header", "map<string, string>");

/** Compiles an expression. Throws an error that describes the problem. */
export function compileFilter(text: string): Filter {
  const parsed = CEL.parse(text);
  const { type, error } = parsed.check();
  if (error !== undefined) throw error;
  if (type !== "bool" && type !== "dyn")
    throw new Error(`must be true or false, not a value of type ${type}`);
  const run = compile(parsed.ast, new Set(["body", "header"]));
  return (req, body) => {
    const result = run(new Evaluation(req, body));
    if (typeof result !== "boolean") throw failed("the expression is not true or false for this request");
    return result;
  };
}

/** Returns the problem of an expression; undefined if it is valid. */
export function filterProblem(text: string): string | undefined {
  try {
    compileFilter(text);
    return undefined;
  } catch (error) {
    const { message, summary, range } = error as Partial<Failure>;
    if (summary === undefined) return message;
    const at = range === undefined ? "" : ` (at character ${range.start + 1})`;
    return `is not a valid expression: ${summary}${at}`;
  }
}

/** Error of cel-js. Its `message` has several lines, and its `summary` has one. */
type Failure = Error & { readonly summary: string; readonly range: { readonly start: number } };

function compile(node: ASTNode, names: ReadonlySet<string>): Run {
  const operator = OPERATORS[node.op];
  if (operator === undefined) throw new Error(`must not use the operator ${node.op}`);
  const run = operator({ node, names, compile });
  return (evaluation) => {
    evaluation.spend(1);
    return run(evaluation);
  };
}
