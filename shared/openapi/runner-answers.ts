import { z } from "zod";

/* Answers of the reference runner: the types of its routes, and the schemas of its OpenAPI document. */

export const JobsAnswer = z
  .object({ jobs: z.array(z.object({ id: z.int(), name: z.string(), long: z.boolean() })) })
  .meta({ id: "Jobs" });

export const ListedState = z.enum(["running", "interrupted", "stored", "done", "failed"]);

/** A call as the runner's lists show it to any client. So it contains no body, no metadata and no text of the job's handler. */
export const ListedCall = z
  .object({
    id: z.string(),
    job_id: z.int(),
    /** `interrupted` if the call is marked as running, but its lease has expired. */
    state: ListedState,
    /** Unix milliseconds by Redis' clock, like `finished_at`. */
    started_at: z.int(),
    finished_at: z.int().optional(),
    /** HTTP status of the call's answer or failure. */
    status: z.int().optional(),
    bytes: z.int(),
    sha256: z.string(),
    code: z.string().optional(),
    /** Number of runs of a long call that ended with an error. */
    attempts_failed: z.int().optional(),
  })
  .meta({ id: "Call" });
export type ListedCall = z.infer<typeof ListedCall>;

export const CallsAnswer = z
  .object({
    calls: z.array(ListedCall),
    /** Value of the parameter `after` for the next page. Absent on the last page. Any page may be empty, even one with `next`. */
    next: z.string().optional(),
  })
  .meta({ id: "Calls" });
export type CallsAnswer = z.infer<typeof CallsAnswer>;

/** The answer to the request for a long call, which runs later. */
export const StoredAnswer = z
  .object({ status: z.literal("stored"), call_id: z.string() })
  .meta({ id: "StoredCall" });

/** Readiness of the runner. Each member other than `status` describes one dependency or part of it. */
export const ReadinessAnswer = z
  .looseObject({ status: z.enum(["ready", "not ready"]) })
  .meta({ id: "Readiness" });
