import { z } from "zod";
import { CALL_ID } from "../../shared/call/call-id.ts";
import { parseServiceId } from "../../shared/call/job-ids.ts";
import { RUN_ID } from "../../shared/console/runs/run.ts";

/* The forms of what stands in a path or a query. `asParameter` is the schema of it in the OpenAPI document. */

/** A whole number in decimal. */
export function whole({ min = 0, max = Number.MAX_SAFE_INTEGER } = {}) {
  return z
    .string()
    .regex(/^(?:0|[1-9]\d{0,15})$/, "must be an integer in decimal digits")
    .transform(Number)
    .pipe(z.int().min(min).max(max))
    .meta({ asParameter: { type: "integer", minimum: min, maximum: max } });
}

const callId = z.string().regex(CALL_ID);

/** The job of a path: `{service_id}/{job_index}`. */
export const jobParams = z.strictObject({ service_id: pathId(), job_index: pathId() });

function pathId() {
  return z
    .string()
    .refine(
      (text) => parseServiceId(text) !== undefined,
      "must be an integer in decimal digits, without leading zeros",
    )
    .meta({ asParameter: { type: "integer", minimum: 0, maximum: Number.MAX_SAFE_INTEGER } });
}

export const callParams = z.strictObject({ call_id: callId });
export const runParams = z.strictObject({ run_id: z.string().regex(RUN_ID) });

const LIMIT_MAX = 500;
const LIMIT_DEFAULT = 50;

/** How many items one answer has at most. */
const limit = whole({ min: 1, max: LIMIT_MAX }).default(LIMIT_DEFAULT);

/** Of a list: how many, and where it goes on (shared/console/cursor.ts). */
export const page = { limit, cursor: z.string().max(12_000).optional() };

/** Why something is done, for the audit. */
export const reason = z.string().trim().min(1, "is empty").max(1000);

/** `true` or `false`. */
export const flag = z
  .enum(["true", "false"])
  .transform((text) => text === "true")
  .meta({ asParameter: { type: "boolean" } });
