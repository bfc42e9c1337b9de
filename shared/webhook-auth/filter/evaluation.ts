import type { IncomingMessage } from "node:http";
import { allHeaders, headerText } from "../../http/headers.ts";
import { AppError } from "../../platform/errors/app-error.ts";
import { parseValue, type Value } from "./value.ts";

/**
 * Limit on the steps of one evaluation, so that a request cannot keep the process busy. Each time a part of the
 * expression is evaluated, it takes a step.
 */
const STEPS_MAX = 100_000;
/** Number of characters that are compared or searched in one step. */
const CHARACTERS_OF_STEP = 64;
/**
 * Steps that are charged when an operand of `&&` or `||` fails, or the condition of a loop for one element. The error
 * is caught, because the other operand or another element may decide.
 */
const STEPS_OF_ERROR = 20;

const RETRY_AFTER_MS = 60_000;

/**
 * Creates the error for an expression that has no result. The reason contains no value of the request, because a value
 * may be a credential.
 */
export function failed(reason: string): AppError {
  return new AppError("webhook.filter_failed", { reason: `when: ${reason}`, retryAfterMs: RETRY_AFTER_MS });
}

export type RequestHeaders = Pick<IncomingMessage, "rawHeaders">;

/** One evaluation of an expression: its variables, and the remaining steps. */
export class Evaluation {
  /** Variables of loops. */
  readonly locals = new Map<string, Value>();
  readonly #req: RequestHeaders;
  readonly #bytes: Buffer;
  #steps = STEPS_MAX;
  #body: Value | undefined;
  #header: Value | undefined;

  constructor(req: RequestHeaders, body: Buffer) {
    this.#req = req;
    this.#bytes = body;
  }

  spend(steps: number): void {
    this.#steps -= steps;
    if (this.#steps < 0) throw failed(`the expression takes more than ${STEPS_MAX} steps for this request`);
  }

  /** Spends the steps for comparing or searching text of this length. */
  readonly spendText = (length: number): void => this.spend(1 + length / CHARACTERS_OF_STEP);

  /** Returns the result of `run`, or the error that it has thrown. If no steps are left, throws the error instead. */
  attempt<Result>(run: () => Result): Result | AppError {
    try {
      return run();
    } catch (thrown) {
      if (!(thrown instanceof AppError) || this.#steps < 0) throw thrown;
      this.spend(STEPS_OF_ERROR);
      return thrown;
    }
  }

  variable(name: string): Value {
    const local = this.locals.get(name);
    if (local !== undefined) return local;
    return name === "body" ? this.#parsedBody() : this.#headers();
  }

  #parsedBody(): Value {
    if (this.#body === undefined) {
      const parsed = parseValue(this.#bytes);
      if ("problem" in parsed) throw failed(`the body ${parsed.problem}`);
      this.#body = parsed.value;
    }
    return this.#body;
  }

  /** Returns the headers. Values of a repeated header are joined (RFC 9110, section 5.3). */
  #headers(): Value {
    this.#header ??= new Map(
      Object.entries(allHeaders(this.#req)).map(([name, values]) => [name, headerText(values.join(", "))]),
    );
    return this.#header;
  }
}
