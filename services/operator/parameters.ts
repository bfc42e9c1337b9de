import { z } from "zod";
import { CALL_ID } from "../../shared/job-call/call-id.ts";
import { parseServiceId } from "../../shared/job-call/job-ids.ts";

/* The forms of what stands in a path or a query. `asParameter` is the schema of it in the OpenAPI document. */

/** A whole number in decimal. */
export function whole({ min = 0, max = Number.MAX_SAFE_INTEGER } = {}) {
  return z
    .string()
    .regex(/^(?:0|[1-9]\d{0,15})$/, "must be a whole number in decimal")
    .transform(Number)
    .pipe(z.int().min(min).max(max))
    .meta({ asParameter: { type: "integer", minimum: min, maximum: max } });
}

export const callId = z.string().regex(CALL_ID);

/** The job of a path: `{service_id}/{job_index}`. */
export const jobParams = z.strictObject({ service_id: pathId(), job_index: pathId() });

function pathId() {
  return z
    .string()
    .refine((text) => parseServiceId(text) !== undefined, "is no id: a whole number in its one decimal form")
    .meta({ asParameter: { type: "integer", minimum: 0, maximum: Number.MAX_SAFE_INTEGER } });
}

export const callParams = z.strictObject({ call_id: callId });

export const LIMIT_MAX = 500;
const LIMIT_DEFAULT = 50;

/** How many items one answer has at most. */
export const limit = whole({ min: 1, max: LIMIT_MAX }).default(LIMIT_DEFAULT);

/** Where a list goes on: the `next` of the answer before, which says nothing to its reader. */
export function cursor<Place extends z.ZodType>(place: Place) {
  return z
    .string()
    .max(1024)
    .transform((text, context): unknown => {
      try {
        return JSON.parse(Buffer.from(text, "base64url").toString("utf8"));
      } catch {
        context.addIssue("is not the `next` of an answer of this list");
        return z.NEVER;
      }
    })
    .pipe(place)
    .meta({ asParameter: { type: "string" } });
}

export function toCursor(place: unknown): string {
  return Buffer.from(JSON.stringify(place)).toString("base64url");
}

/** The `next` of a page: where it goes on, or null after the last one. */
export const next = z.string().nullable();

/** Why something is done, for the audit. */
export const reason = z.string().trim().min(1, "is empty").max(1000);
