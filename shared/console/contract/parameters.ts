import { z } from "zod";
import { CALL_ID } from "../../call/call-id.ts";
import { readGate } from "../../queue/queue-name.ts";
import { RUN_ID } from "../runs/run.ts";

/*
 * Parameters of a path or a query. In a URL they are text; a caller in this program gives numbers and booleans as they are.
 * `asParameter` is the schema of it in the OpenAPI document.
 */

/** A whole number, in decimal. */
export function whole({ min = 0, max = Number.MAX_SAFE_INTEGER } = {}) {
  return asText<number>(
    z
      .string()
      .regex(/^(?:0|[1-9]\d{0,15})$/, "must be an integer in decimal digits")
      .transform(Number)
      .pipe(z.int().min(min).max(max)),
    { type: "integer", minimum: min, maximum: max },
  );
}

/** `true` or `false`. */
export const flag = asText<boolean>(
  z.enum(["true", "false"]).transform((text) => text === "true"),
  { type: "boolean" },
);

function asText<Value>(schema: z.ZodType<Value, string>, asParameter: object) {
  return z
    .preprocess((given: Value | string) => (given === undefined ? given : String(given)), schema)
    .meta({ asParameter });
}

export const callParams = z.strictObject({ call_id: z.string().regex(CALL_ID) });
export const runParams = z.strictObject({ run_id: z.string().regex(RUN_ID) });

/** The job or the receiver that a name means, in the form that it is stored under. */
export const gate = z
  .string()
  .max(300)
  .transform((text, context) => {
    const read = readGate(text);
    if ("gate" in read) return read.gate;
    context.addIssue({ code: "custom", message: read.problem });
    return z.NEVER;
  });
export const jobParams = z.strictObject({ job: gate });

const LIMIT_MAX = 500;
const LIMIT_DEFAULT = 50;

/** How many items one answer has at most. */
const limit = whole({ min: 1, max: LIMIT_MAX }).default(LIMIT_DEFAULT);

/** The number of items in a page, and its place in the list (shared/console/cursor.ts). */
export const page = { limit, cursor: z.string().max(12_000).optional() };
