import type { Protocol } from "./protocol.ts";
import { type Body, move, type State } from "./state.ts";

/** More ids than this show nothing new. */
const RANDOM_IDS_MAX = 3;

/** Adding an id that is in the queue is a no-op; a job that was removed can be added again. */
export function add(s: State, body: Body, { idsAreDeterministic }: Protocol): State {
  if (idsAreDeterministic && s.jobs.length > 0) return s;
  if (s.nextId >= RANDOM_IDS_MAX) return s;
  const nextId = idsAreDeterministic ? s.nextId : s.nextId + 1;
  return { ...s, nextId, jobs: [...s.jobs, { id: s.nextId, body, at: "waiting" }] };
}

/** One step: the record becomes QUEUED, and its job is added. */
export function enqueueSettled(s: State, protocol: Protocol): State {
  return s.record === "SETTLING" ? add(move(s, ["SETTLING"], "QUEUED"), s.recordBody, protocol) : s;
}
