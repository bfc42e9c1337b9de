import type { Payment } from "./payments.ts";

/** A call that a search has found. */
export type FoundCall = {
  id: string;
  state: string;
  /** When it came into this state, or was queued. */
  at: string;
  origin: string | null;
  job: string | null;
  endpoint: string | null;
  delivery_id: string | null;
  payer: string | null;
  transaction: string | null;
  accepted_at: string | null;
  ended_at: string | null;
  attempts: number | null;
  code: string | null;
  reason: string | null;
};

export type FoundCalls = { calls: FoundCall[]; next: string | null; is_complete: boolean };

/** One thing that happened to a call. What it has beside `at` and `what` depends on that. */
export type LifeStep = {
  at: string;
  what: string;
  /** How many attempts right before it are no longer kept. */
  missing?: number;
  n?: number;
  code?: string;
  reason?: string;
  worker?: string;
  facilitator?: string;
  dispatches?: number;
  transaction?: string;
  by?: string;
  proven?: boolean;
  export?: string;
  json?: string;
  status?: number;
  content_type?: string;
  bytes?: number;
  title?: string;
  detail?: string;
  ending?: string;
  state?: string;
  attempts?: number;
  id?: string;
};

export type CallLife = {
  call_id: string;
  state: string;
  changed_at: string | null;
  origin: string | null;
  service_id: number | null;
  job_id: number | null;
  queue: { name: string; as: string; due_at: string | null } | null;
  timeline: LifeStep[];
  content_type: string | null;
  bytes: number | null;
  sha256: string | null;
  traceparent: string | null;
  metadata: Record<string, string> | null;
  path: string | null;
  delivery_id: string | null;
  /** How many there were in all, across replays. */
  attempts: number | null;
  replays: number;
  body_kept: boolean;
  result: { what: string; code?: string; title?: string | null; detail?: string | null };
  payment: Payment | null;
  forgotten_at: string | null;
};
