import { randomUUID } from "node:crypto";
import { callIdInPartitionOf } from "../call/call-id.ts";
import { JobCall, WEBHOOK_REPLAY_OF } from "../call/job-call.ts";
import { createResults } from "../call/results/store.ts";
import { AppError } from "../platform/errors/app-error.ts";
import { failpoint } from "../platform/lifecycle/failpoint.ts";
import { parseJson } from "../platform/text/parse-json.ts";
import { QUEUE_CONSTANTS } from "../queue/lua-constants.ts";
import type { OperateDeps } from "../queue/operate.ts";
import { RANDOM_ID_KEEP_MS } from "../queue/protocol.ts";
import { gateOf, queueOf } from "../queue/queue-name.ts";
import { AUDIT, actKeys, logAudited, toLine } from "../redis/audit/audit.ts";
import { defineScript } from "../redis/define-script.ts";
import { confirmed } from "../redis/prover.ts";
import { oneOf, text } from "../redis/reply.ts";
import readKeptHeadLua from "./read-kept-head.lua";
import replayDeliveredLua from "./replay-delivered.lua";

const READ_HEAD = defineScript({ source: readKeptHeadLua, keys: "kept", proof: "reads", reply: text });

const REPLAY = defineScript({
  source: replayDeliveredLua,
  keys: "record, kept, acts, repeats, actCount",
  args: "prefix, gate, queue, id, before, after, sha256, windowMs, line",
  constants: { ...QUEUE_CONSTANTS, AUDIT },
  proof: "needed",
  reply: oneOf("NEW", "KNOWN", "GONE"),
});

/**
 * `requestId` is an id that the client may choose for its request. If it sends the request again, it gets the same new call.
 */
type Why = { reason: string; requestId?: string | undefined };

/** The new call. `changed` is false if the same request has queued it before. */
type Replayed = { callId: string; changed: boolean };

/** Resolves with undefined if the delivered call is not kept. */
export type ReplayDelivered = (id: string, why: Why) => Promise<Replayed | undefined>;

/**
 * Queues a kept webhook (shared/call/kept) again, as a new call with another id, so that its runner runs it. One script
 * copies the body, adds the call and writes the line of the audit log. So a call that was forgotten or evicted before is not
 * replayed. The body never leaves Redis.
 *
 * The new call has no callback, because the links of the callback would lead to the result of the delivered call. Throws
 * `call.paid` and `call.corrupt`.
 */
export function createReplayDelivered({ partition, clock, log, by }: OperateDeps): ReplayDelivered {
  const { redis, keys, prefix } = partition;
  const [readHead, replay] = [READ_HEAD.on(redis), REPLAY.on(redis)];
  const results = createResults(partition);

  /** Returns the new call if the same request has queued it before. */
  async function known(callId: string): Promise<Replayed | undefined> {
    if ((await results.state(callId)) === undefined) return undefined;
    await confirmed(redis);
    return { callId, changed: false };
  }

  return async function replayDelivered(id, { reason, requestId = randomUUID() }) {
    if (await results.isPaid(id)) throw paid(id);
    const stored = await readHead({ kept: keys.kept(id) });
    const callId = callIdInPartitionOf(id, "replay", id, requestId);
    if (stored === "") return known(callId);
    const at = clock();
    const made = toReplay(id, stored, { id: callId, accepted_at: at });
    const act = {
      at,
      action: "replay_delivered",
      callId: id,
      by,
      selection: `as ${callId}`,
      reason,
    } as const;
    const words = { prefix, id: callId, ...made, line: toLine(act) };
    failpoint("operator.before_replayed");
    const outcome = await replay(
      { record: keys.record(callId), kept: keys.kept(id), ...actKeys(keys, act) },
      words,
    );
    failpoint("operator.after_replayed");
    if (outcome === "GONE") return undefined;
    if (outcome === "NEW") logAudited(log, act);
    return { callId, changed: outcome === "NEW" };
  };
}

/** Builds the JSON of the new call before and after its body, and names the queue of the call. */
function toReplay(id: string, stored: string, own: { id: string; accepted_at: number }) {
  const found = parseJson(stored);
  const { data: call } = JobCall.safeParse(found);
  if (call?.id !== id) throw corrupt(id);
  if (call.origin !== "webhook") throw paid(id);
  // `kept` also has the fields that this version does not know.
  const { body: _, callback: __, metadata: ___, ...kept } = found as Record<string, unknown>;
  const metadata = { ...withCallId(call.metadata, id, own.id), [WEBHOOK_REPLAY_OF]: id };
  const queue = queueOf(call);
  return {
    before: `${JSON.stringify({ ...kept, ...own, metadata }).slice(0, -1)},"body":"`,
    after: '"}',
    sha256: call.sha256,
    // Retention time of the new call's record. As long as the delivered call is kept, a repeat of the request must find the
    // new call.
    windowMs: Math.max(RANDOM_ID_KEEP_MS, (call.keep_delivered?.secs ?? 0) * 1000),
    queue,
    gate: gateOf(queue),
  };
}

/**
 * Replaces the call's id in its metadata. The header is found by its suffix, because its prefix depends on the gateway's
 * configuration.
 */
function withCallId(metadata: JobCall["metadata"], id: string, own: string): JobCall["metadata"] {
  const named = (name: string, value: string) => name.endsWith("-CALL-ID") && value === id;
  return Object.fromEntries(
    Object.entries(metadata).map(([name, value]) => [name, named(name, value) ? own : value]),
  );
}

function paid(id: string): AppError {
  const detail = `${id} is a paid call: to run it again would be a second run for one payment`;
  return AppError.public("call.paid", detail);
}

function corrupt(id: string): AppError {
  return AppError.public("call.corrupt", `${id}: the stored data is unreadable as a call`);
}
