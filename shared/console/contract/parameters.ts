import { z } from "zod";
import { CALL_ID, NOT_A_CALL_ID } from "../../call/call-id.ts";
import { whyNoJobKey } from "../../call/job-ids.ts";
import { problemOfText } from "../../call/search-text.ts";
import { isAddress } from "../../chain/address.ts";
import { isErrorCode } from "../../platform/errors/codes.ts";
import { readGate } from "../../queue/queue-name.ts";
import { NOT_A_RUN_ID, RUN_ID } from "../runs/run.ts";
import { reason } from "../view.ts";

/*
 * Parameters of a path or a query. In a URL they are text, but callers in this program pass numbers and booleans,
 * so both are accepted. `asParameter` is the schema that the OpenAPI document shows for the parameter.
 */

/** An integer, in decimal. */
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
export const runParams = z.strictObject({ run_id: z.string().regex(RUN_ID, NOT_A_RUN_ID) });

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

/** Free text of a search. */
export const searchText = z
  .string()
  .superRefine((text, context) => {
    const problem = problemOfText(text);
    if (problem !== undefined) context.addIssue({ code: "custom", message: problem });
  })
  .transform((text) => text.trim());

const JOB = "(?:0|[1-9]\\d{0,15})/(?:0|[1-9]\\d{0,15})";

/** `<service id>/<job index>` */
export const jobKey = z
  .string()
  .refine((text) => whyNoJobKey(text) === undefined, "must be <service id>/<job index>, such as 7/1")
  .meta({ pattern: `^${JOB}$` });

/**
 * A job or a receiver of callbacks (`callback/receiver.example.com`), converted to the form under which Redis
 * stores it.
 */
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

/** Request body that has only the reason for an act. */
export const reasonBody = z.strictObject({ reason }).meta({ id: "Because" });

export const jobParams = z.strictObject({ job: gate });

const LIMIT_MAX = 500;
const LIMIT_DEFAULT = 50;

/** Limit on the number of items in one answer. */
const limit = whole({ min: 1, max: LIMIT_MAX }).default(LIMIT_DEFAULT);

/** Number of items in a page, and the cursor of its position in the list (shared/console/cursor.ts). */
export const page = { limit, cursor: z.string().max(12_000).optional() };
