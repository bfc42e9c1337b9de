import { createHash, randomUUID } from "node:crypto";
import { AppError, messageOf } from "../platform/errors/app-error.ts";
import type { AuditEntry } from "../redis/audit/actions.ts";
import { AUDIT, actKeys, toLine } from "../redis/audit/audit.ts";
import { defineScript, type Reply } from "../redis/define-script.ts";
import type { Partition } from "../redis/partition.ts";
import { flag, nothing, numeric, optional, text, tuple } from "../redis/reply.ts";
import closeEndpointLua from "./close-endpoint.lua";
import lookAtOpenedLua from "./look-at-opened.lua";
import openEndpointLua from "./open-endpoint.lua";
import takeSecretLua from "./take-secret.lua";

/** Secret that a sender has sent in a handshake, with the sender's address. */
export type TakenSecret = { secret: string; address: string; takenAt: number };

/**
 * State of an opened endpoint. The command with which an operator opened it (`postern endpoints open`) reads this state
 * again and again.
 */
export type OpenedState =
  | { kind: "open" }
  /**
   * A secret has arrived. It is returned only once, because reading it deletes it from Redis and closes the endpoint.
   */
  | ({ kind: "secret" } & TakenSecret)
  /** The endpoint's time is over, or an operator closed it. */
  | { kind: "closed" }
  /** Another operator has opened the endpoint again, and gets its secret. */
  | { kind: "taken-over"; by: string };

/**
 * Time in ms for which a secret that no operator has seen is kept. If the command that opened the endpoint has died,
 * the operator can run it again to see the secret.
 */
const SECRET_KEPT_MS = 10 * 60_000;

const SECRET = /^[!-~]{1,256}$/;

/*
 * Some senders choose the secret of an endpoint themselves, and send it in a handshake. An operator opens the endpoint
 * for such a secret. An open endpoint is a hash in Redis with `session` (the command that opened it last) and `by` (the
 * operator of that command). A handshake adds `secret`, `address` and `taken_at`. The hash expires by itself. Reading
 * the secret also deletes it, so it is shown at most once. If the command dies before it has read the secret, the
 * operator can run it again to see the secret.
 */

const OPEN = defineScript({
  source: openEndpointLua,
  keys: "opened, acts, repeats, actCount",
  args: "session, by, ms, line",
  constants: { AUDIT },
  proof: "needed",
  reply: nothing,
});

const TAKE = defineScript({
  source: takeSecretLua,
  keys: "opened",
  args: "secret, address, ms",
  proof: "needed",
  reply: optional(text),
});

const LOOK = defineScript({
  source: lookAtOpenedLua,
  keys: "opened",
  args: "session, close",
  proof: "needed",
  reply: tuple(...[optional(text), optional(text), optional(text)], ...[optional(text), optional(numeric)]),
});

const CLOSE = defineScript({
  source: closeEndpointLua,
  keys: "opened, acts, repeats, actCount",
  args: "line",
  constants: { AUDIT },
  proof: "needed",
  reply: optional(tuple(text, flag)),
});

/**
 * Stores the secret of a handshake if an operator has opened the endpoint and no other secret has arrived before.
 * Resolves with whether the stored secret is now this one.
 */
export type TakeSecret = (path: string, secret: string, address: string) => Promise<boolean>;

/**
 * Minimum time in ms between two queries of Redis for one endpoint. Any client can send handshakes. Without this limit,
 * clients could make Redis busy. All handshakes in this time share the answer to the first query.
 */
const QUERY_EVERY_MS = 1000;

/**
 * Creates the function that takes secrets from handshakes, for gateways. The function notices an opened endpoint within
 * a second. Throws `queue.unavailable` if Redis does not answer. The sender may then repeat the handshake, even if
 * Redis has stored the secret. `now` is a monotonic time in milliseconds.
 */
export function createTakeSecret(
  { redis, keys }: Partition,
  now: () => number = () => performance.now(),
): TakeSecret {
  const take = TAKE.on(redis);
  const lastAnswers = new Map<string, { at: number; hash: Promise<string | undefined> }>();

  async function query(path: string, secret: string, address: string): Promise<string | undefined> {
    try {
      return await take({ opened: keys.opened(path) }, { secret, address, ms: SECRET_KEPT_MS });
    } catch (cause) {
      throw new AppError("queue.unavailable", { reason: messageOf(cause), cause });
    }
  }

  return async (path, secret, address) => {
    if (!SECRET.test(secret)) return false;
    const at = now();
    const last = lastAnswers.get(path);
    const isFresh = last !== undefined && at - last.at < QUERY_EVERY_MS;
    const hash = isFresh ? last.hash : query(path, secret, address);
    if (!isFresh) lastAnswers.set(path, { at, hash });
    return (await hash) === createHash("sha1").update(secret).digest("hex");
  };
}

type EndpointAct = Extract<AuditEntry<"acts">, { path: string }>;

/**
 * Creates the functions with which operators' commands open and close endpoints. An open endpoint accepts one secret by
 * a handshake.
 */
export function createOpenedEndpoints({ redis, keys }: Partition) {
  const [open, look, close] = [OPEN.on(redis), LOOK.on(redis), CLOSE.on(redis)];
  return {
    /** Opens an endpoint, or takes it over from another operator, and adds a line to the audit log. */
    async open(act: EndpointAct, ms: number) {
      const session = randomUUID();
      const touched = { opened: keys.opened(act.path) };
      await open({ ...touched, ...actKeys(keys, act) }, { session, by: act.by, ms, line: toLine(act) });
      return {
        look: async () => toState(await look(touched, { session, close: false }), session),
        /** Closes the endpoint. If a secret has arrived since the last `look`, returns it. */
        close: async () => toState(await look(touched, { session, close: true }), session),
      };
    },

    /**
     * Closes an endpoint, no matter which operator opened it, and adds a line to the audit log. A secret that no
     * operator has seen is lost. Returns the operator who opened the endpoint, and whether a secret was lost.
     */
    async close(act: EndpointAct): Promise<{ by: string; hadSecret: boolean } | undefined> {
      const touched = { opened: keys.opened(act.path), ...actKeys(keys, act) };
      const [wasOpenedBy, hadSecret = false] = (await close(touched, { line: toLine(act) })) ?? [];
      return wasOpenedBy === undefined ? undefined : { by: wasOpenedBy, hadSecret };
    },
  };
}

export type OpenedEndpoint = Awaited<ReturnType<ReturnType<typeof createOpenedEndpoints>["open"]>>;

function toState([session, by, secret, address, takenAt]: Reply<typeof LOOK>, own: string): OpenedState {
  if (!session) return { kind: "closed" };
  if (session !== own) return { kind: "taken-over", by: by ?? "" };
  if (!secret) return { kind: "open" };
  return { kind: "secret", secret, address: address ?? "", takenAt: takenAt ?? 0 };
}
