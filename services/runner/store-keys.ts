/*
 * What all runners on one Redis share.
 *
 *   {postern-runner}:call:<key>   hash: what is remembered of a call, by its Idempotency-Key
 *   {postern-runner}:calls        zset: every call remembered, by when it may be forgotten (+inf: not before it ends)
 *   {postern-runner}:due          zset: long calls, by when a runner should look at them: when they wait, at once or
 *                                 after a pause; while they run, when their lease lapses
 *
 *   (none) ─begin─► RUNNING ─finish─► DONE          a short call; RUNNING holds only while its lease does
 *                     │  ▲
 *                fail ▼  │ begin
 *                   FAILED
 *
 *   (none) ─begin─► RUNNING ─store─► STORED ─claim─► RUNNING ─finish─► DONE          a long call
 *                                      ▲               │ └─fail─► FAILED (begin starts it anew)
 *                                      ├──retry later──┘               │
 *                                      └────────────again──────────────┘
 *
 * Fields of a call: st, request (job and body sha256), job, bytes, sha256, at; owner and lease while it runs; status,
 * type and answer (base64) once it has been answered with 2xx; finished, code and reason at its end, of which reason is
 * never listed, being the handler's own text. A long call also has input (base64), input_type, metadata, traceparent
 * until it is done, attempts (failed ones) and runs. A FAILED long call has no TTL.
 *
 * Leases and due times are by Redis' clock, so that runners need not agree on the time.
 */
const PREFIX = "{postern-runner}";

export const keys = {
  call: (id: string) => `${PREFIX}:call:${id}`,
  calls: `${PREFIX}:calls`,
  due: `${PREFIX}:due`,
} as const;

/** Lua: `now`, in milliseconds. */
export const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)`;
