import type { Protocol } from "./protocol.ts";
import { type Body, move, type State } from "./state.ts";

/** Limit on random ids. More of them show nothing new. */
const RANDOM_IDS_MAX = 3;

/** Adds a job. If its id is already in the queue, this does nothing; a removed job can be added again. */
export function add(s: State, body: Body, { idsAreDeterministic }: Protocol): State {
  if (idsAreDeterministic && s.jobs.length > 0) return s;
  if (s.nextId >= RANDOM_IDS_MAX) return s;
  const nextId = idsAreDeterministic ? s.nextId : s.nextId + 1;
  return { ...s, nextId, jobs: [...s.jobs, { id: s.nextId, body, at: "waiting" }] };
}

/** Moves the record to QUEUED and adds its job, in one step. */
export function enqueueSettled(s: State, protocol: Protocol): State {
  return s.record === "SETTLING" ? add(move(s, ["SETTLING"], "QUEUED"), s.recordBody, protocol) : s;
}
