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

/** A secret that a sender gave in a handshake, and where the handshake came from. */
export type TakenSecret = { secret: string; address: string; takenAt: number };

/** An endpoint as the operator's command that opened it sees it. */
export type OpenedState =
  | { kind: "open" }
  /** Shown once: it is gone from Redis, and the endpoint is closed. */
  | ({ kind: "secret" } & TakenSecret)
  /** Its time is over, or it was closed. */
  | { kind: "closed" }
  /** Somebody has opened it again, and gets its secret. */
  | { kind: "taken-over"; by: string };

/** How long a secret waits for a command to show it, if the command that opened the endpoint has died. */
const SECRET_KEPT_MS = 10 * 60_000;

const SECRET = /^[!-~]{1,256}$/;

/*
 * What is open is a hash in Redis: session (the command that opened it last), by, and once a secret was taken: secret, address,
 * taken_at. It ends with its time. Whoever reads the secret deletes it in the same step, so it is shown at most once; until
 * then a lost command can be run again, and shows it.
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

/** Takes a handshake's secret if an operator has opened this endpoint for one, and no other was taken. */
export type TakeSecret = (path: string, secret: string, address: string) => Promise<boolean>;

/** Anybody can send a handshake: Redis is asked once in this time for each endpoint, and its answer holds for all. */
const ASKED_EVERY_MS = 1000;

/**
 * The gateway's side. Whether an endpoint is open is seen a second later at most. Throws `queue.unavailable` if Redis does not
 * answer; then the handshake may be repeated. `now` is in milliseconds, from any beginning.
 */
export function createTakeSecret(
  { redis, keys }: Partition,
  now: () => number = () => performance.now(),
): TakeSecret {
  const take = TAKE.on(redis);
  const asked = new Map<string, { at: number; hash: Promise<string | undefined> }>();

  async function ask(path: string, secret: string, address: string): Promise<string | undefined> {
    try {
      return await take({ opened: keys.opened(path) }, { secret, address, ms: SECRET_KEPT_MS });
    } catch (cause) {
      throw new AppError("queue.unavailable", { reason: messageOf(cause), cause });
    }
  }

  return async (path, secret, address) => {
    if (!SECRET.test(secret)) return false;
    const at = now();
    const last = asked.get(path);
    const isFresh = last !== undefined && at - last.at < ASKED_EVERY_MS;
    const hash = isFresh ? last.hash : ask(path, secret, address);
    if (!isFresh) asked.set(path, { at, hash });
    return (await hash) === createHash("sha1").update(secret).digest("hex");
  };
}

type EndpointAct = Extract<AuditEntry<"acts">, { path: string }>;

/** The operator's side: endpoints that take one secret in a handshake while they are open. */
export function createOpenedEndpoints({ redis, keys }: Partition) {
  const [open, look, close] = [OPEN.on(redis), LOOK.on(redis), CLOSE.on(redis)];
  return {
    /** Opens an endpoint, or takes it over from whoever has opened it before; with its line in the audit. */
    async open(act: EndpointAct, ms: number) {
      const session = randomUUID();
      const touched = { opened: keys.opened(act.path) };
      await open({ ...touched, ...actKeys(keys, act) }, { session, by: act.by, ms, line: toLine(act) });
      return {
        look: async () => toState(await look(touched, { session, close: false }), session),
        /** A secret that has arrived meanwhile is still shown. */
        close: async () => toState(await look(touched, { session, close: true }), session),
      };
    },

    /**
     * Closes an endpoint, whoever has opened it, with its line in the audit; a secret that nobody has seen is lost. Returns what was closed.
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
