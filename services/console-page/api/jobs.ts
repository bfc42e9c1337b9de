import type { CredentialKind } from "../../../shared/senders/advice.ts";
import { ask } from "./ask.ts";

/** A job that has a queue or a setting: what it holds, over all origins, and what holds it up. */
export type Job = {
  /** `<service id>/<job index>`; or a receiver of callbacks, as `callback/receiver.example.com`, or `callback`, all of these together. */
  job: string;
  state: "running" | "throttled" | "paused";
  origins: string[];
  waiting: number;
  delayed: number;
  active: number;
  failed: number;
  oldest_age_ms: number | null;
  concurrency: number | null;
  rate: { calls: number; period_ms: number } | null;
  throttled_until?: string;
  paused?: { at: string; by: string; reason: string };
};

export const pauseJob = (job: string, reason: string): Promise<unknown> =>
  ask("POST", `api/v1/jobs/${job}/pause`, { body: { reason } });

export const resumeJob = (job: string, reason: string): Promise<unknown> =>
  ask("POST", `api/v1/jobs/${job}/resume`, { body: { reason } });

/** A request that was refused before it was a call. */
export type Rejected = {
  id: string;
  refused_at: string;
  endpoint: string | null;
  address: string;
  method: string;
  path: string;
  query_names: string[];
  code: string;
  reason: string;
  header_names: string[];
  signature_headers: { came: string[] | null; wanted: string[] | null };
  /** How the sender had to prove who it is; null if it was not refused for that. */
  credential: CredentialKind | null;
  bytes: number | null;
  /** How many came between it and the one before, and were not kept. */
  missed_before: number;
};
