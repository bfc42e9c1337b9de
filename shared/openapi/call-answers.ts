import { z } from "zod";
import { STATES } from "../call/record-state.ts";
import { problemMembers } from "./document.ts";

/* Answers of both gateways about a call. */

/** The reason why a call failed. */
export const Failure = z
  .object({
    /** An error code of errors.md. */
    code: z.string().optional(),
    /** The HTTP status of the failed result that the runner delivered. */
    status: z.int().optional(),
    title: z.string().optional(),
    detail: z.string().optional(),
  })
  .meta({ id: "Failure" });

type LowerCase<Text extends string> = Text extends string ? Lowercase<Text> : never;
const states = STATES.map((state) => state.toLowerCase()) as LowerCase<(typeof STATES)[number]>[];

/** The state of a call. A client without a result token or sign-in gets only the first two members and `refund_transaction`. */
export const CallStateAnswer = z
  .object({
    call_id: z.string(),
    state: z.enum(states),
    refund_transaction: z.string().optional(),
    /** All times in this answer are in unix milliseconds. */
    accepted_at: z.int().optional(),
    changed_at: z.int().optional(),
    attempts: z.int().optional(),
    failure: Failure.optional(),
    progress: z.unknown().optional(),
    progress_at: z.int().optional(),
  })
  .meta({ id: "CallState" });

/** The reason why a call has no result to read. */
export const ResultProblem = z
  .object({ ...problemMembers, failure: Failure.optional() })
  .meta({ id: "ResultProblem" });
