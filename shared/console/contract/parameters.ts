import { z } from "zod";
import { CALL_ID, NOT_A_CALL_ID } from "../../call/call-id.ts";
import { whyNoJobKey } from "../../call/job-ids.ts";
import { isAddress } from "../../chain/address.ts";
import { isErrorCode } from "../../platform/errors/codes.ts";
import { readGate } from "../../queue/queue-name.ts";
import { RUN_ID } from "../runs/run.ts";
import { reason } from "../view.ts";

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

export const callParams = z.strictObject({ call_id: z.string().regex(CALL_ID, NOT_A_CALL_ID) });
export const runParams = z.strictObject({ run_id: z.string().regex(RUN_ID) });

export const errorCode = z
  .string()
  .refine(isErrorCode, "must be an error code of docs/errors.md")
  .meta({ pattern: "^[a-z]\\w*(?:\\.[a-z]\\w*)+$" });

export const payer = z
  .string()
  .refine(isAddress, "must be an address: 0x and 40 hex digits")
  .transform((text) => text.toLowerCase())
  .meta({ pattern: "^0x[0-9a-fA-F]{40}$" });

export const transaction = z
  .string()
  .regex(/^0x[0-9a-fA-F]{64}$/, "must be a transaction hash: 0x and 64 hex digits")
  .transform((text) => text.toLowerCase());

const JOB = "(?:0|[1-9]\\d{0,15})/(?:0|[1-9]\\d{0,15})";

/** `<service id>/<job index>` */
export const jobKey = z
  .string()
  .refine((text) => whyNoJobKey(text) === undefined, "must be <service id>/<job index>, such as 7/1")
  .meta({ pattern: `^${JOB}$` });

/** The job or the receiver that a name means, in the form that it is stored under. */
export const gate = z
  .string()
  .max(300)
  .transform((text, context) => {
    const read = readGate(text);
    if ("gate" in read) return read.gate;
    context.addIssue({ code: "custom", message: read.problem });
    return z.NEVER;
  })
  .meta({ pattern: `^(?:${JOB}|callback(?:/.+)?)$` });

/** The reason for an act, as its whole body. */
export const because = z.strictObject({ reason }).meta({ id: "Because" });

export const jobParams = z.strictObject({ job: gate });

const LIMIT_MAX = 500;
const LIMIT_DEFAULT = 50;

/** How many items one answer has at most. */
const limit = whole({ min: 1, max: LIMIT_MAX }).default(LIMIT_DEFAULT);

/** The number of items in a page, and its place in the list (shared/console/cursor.ts). */
export const page = { limit, cursor: z.string().max(12_000).optional() };
