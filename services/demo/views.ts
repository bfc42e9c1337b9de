import { sha256Hex } from "../../shared/crypto/compare.ts";
import { contentDigest, signMessage } from "../../shared/crypto/message-signature.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { EventLog, type LoggedEvent, startProcess } from "../../shared/dev/process.ts";
import { beforeDeadline, eventually } from "../../shared/dev/wait.ts";
import { messageOf } from "../../shared/errors/app-error.ts";
import { silentLogger } from "../../shared/log/logger.ts";
import { HEARTBEAT_FRESH_MS, lastBeats } from "../../shared/queue/heartbeat.ts";
import { openRegistry } from "../../shared/queue/registry.ts";
import { connectForRequests } from "../../shared/redis/connect.ts";
import { partitionOf } from "../../shared/redis/partition.ts";
import { whenReady } from "../../shared/redis/ready.ts";
import { systemClock } from "../../shared/time/clock.ts";
import { type AcceptedCall, httpRequest, type Reply, type WebhookLedger } from "./sender.ts";

/** How many calls are in the queues: on their way (waiting, delayed or in a producer's hands), or failed. */
type Queued = { waiting: number; failed: number };

export type QueueView = {
  look(): Promise<Queued>;
  /** Throws if there are calls or producers already. Waits a little until the traces of a killed producer have expired. */
  assertUnused(): Promise<void>;
  close(): void;
};

const REDIS_DEADLINE_MS = 5000;

/** Looks into the queues of a Redis from outside. */
export async function openQueueView(redisUrl: string): Promise<QueueView> {
  const redis = connectForRequests(new Secret(redisUrl), silentLogger);
  const partition = partitionOf(redis);
  const registry = openRegistry(partition);
  await whenReady(redis, REDIS_DEADLINE_MS).catch((cause: unknown) => {
    redis.disconnect();
    throw new Error(`Redis at ${new URL(redisUrl).host} cannot be reached: ${messageOf(cause)}`, { cause });
  });

  async function look(): Promise<Queued> {
    const seen = await registry.depths();
    return {
      waiting: sum(seen.map(({ waiting, delayed, active }) => waiting + delayed + active)),
      failed: sum(seen.map(({ failed }) => failed)),
    };
  }

  return {
    look,
    async assertUnused() {
      const noProducer = async () => (await lastBeats(partition)).length === 0;
      await eventually("there is no producer", noProducer, HEARTBEAT_FRESH_MS).catch(() => {});
      const { waiting, failed } = await look();
      const producers = (await lastBeats(partition)).length;
      const found = { "calls on their way": waiting, "failed calls": failed, producers };
      if (Object.values(found).every((number) => number === 0)) return;
      const list = Object.entries(found).map(([what, number]) => `${what}: ${number}`);
      throw new Error(
        `The Redis of REDIS_URL is in use (${list.join(", ")}); the demo would run calls that are not its own.\n` +
          "Unset REDIS_URL to let the demo start a Redis, or name one that Postern does not use.",
      );
    },
    close: () => redis.disconnect(),
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

export type RunnerView = {
  /** The state of a call at GET /calls/{id}, or `unknown`. */
  stateOf(callId: string): Promise<string>;
  /** Resolves once the runner lists all of these calls as done, for the right job and with the very bytes sent. */
  untilDone(calls: readonly AcceptedCall[]): Promise<void>;
  /** Offers a call once more under its key, as a producer would; the runner answers with what it remembers. */
  askAgain(call: AcceptedCall): Promise<Reply>;
};

/** Looks at the runner from outside. */
export function createRunnerView(address: string, secret: Secret, ledger: WebhookLedger): RunnerView {
  async function look(callId: string): Promise<Record<string, unknown>> {
    const reply = await httpRequest(address, { method: "GET", path: `/calls/${callId}` });
    return reply.status === 200 ? (JSON.parse(reply.text) as Record<string, unknown>) : { state: "unknown" };
  }

  async function isDone({ callId, jobId, body }: AcceptedCall): Promise<boolean> {
    const { state, job_id, sha256 } = await look(callId);
    return state === "done" && job_id === jobId && sha256 === sha256Hex(Buffer.from(body));
  }

  return {
    stateOf: async (callId) => String((await look(callId))["state"]),
    async untilDone(calls) {
      for (const call of calls) {
        const what = `the runner lists ${call.callId} as done, with the bytes that were sent`;
        await eventually(what, () => isDone(call));
      }
    },
    askAgain({ callId, jobId, contentType, body }) {
      ledger.askedAgain += 1;
      const path = `/jobs/${jobId}`;
      const covered = {
        "content-digest": contentDigest(sha256Hex(Buffer.from(body))),
        "content-type": contentType,
        "idempotency-key": callId,
      };
      const createdSecs = Math.floor(systemClock() / 1000);
      const signed = signMessage(secret, { method: "POST", path, headers: covered }, createdSecs);
      return httpRequest(address, { method: "POST", path, headers: { ...covered, ...signed }, body });
    },
  };
}

/** Runs `postern` with these arguments, as an operator would. */
export type Postern = (...args: string[]) => Promise<{ exitCode: number | null; lines: readonly string[] }>;

export function createPostern(env: NodeJS.ProcessEnv, configDir: string): Postern {
  return async function postern(...args) {
    const lines: string[] = [];
    const command = startProcess({
      name: "postern",
      args: [...args, "--config-dir", configDir],
      env,
      detached: true,
      onLine: (line) => lines.push(line),
    });
    const { code } = await beforeDeadline(`postern ${args.join(" ")} ends`, command.exit);
    return { exitCode: code, lines };
  };
}

/** The events that a part logged, over all its restarts. */
export class PartLog {
  readonly #log = new EventLog();

  take(line: string): void {
    this.#log.take(line);
  }

  /** Oldest first. */
  named(event: string): LoggedEvent[] {
    return this.#log.named(event);
  }

  /** The first match, logged already or yet to come; rejects, saying what was awaited, after the deadline. */
  first(what: string, matches: (event: LoggedEvent) => boolean): Promise<LoggedEvent> {
    const never = new Promise<never>(() => {});
    return beforeDeadline(what, this.#log.first(matches, never));
  }

  /** The first event of that name for this call. */
  ofCall(event: string, callId: string): Promise<LoggedEvent> {
    const matches = (each: LoggedEvent) => each.event === event && each["callId"] === callId;
    return this.first(`${event} of ${callId} in the log`, matches);
  }

  /** The first event of that name for each of these calls. */
  ofCalls(event: string, callIds: readonly string[]): Promise<LoggedEvent[]> {
    return Promise.all(callIds.map((callId) => this.ofCall(event, callId)));
  }
}

/** What the runner did with the calls it was offered, by its own log. */
type Offers = {
  /** How often each call was run to its end. */
  runs: ReadonlyMap<string, number>;
  /** Answered with the answer of the first run. */
  remembered: readonly LoggedEvent[];
  refused: readonly LoggedEvent[];
};

/** Reads the runner's log; of the calls that pass `isAsked`, or of all. */
export function offersOf(log: PartLog, isAsked: (callId: string) => boolean = () => true): Offers {
  const named = (event: string) => log.named(event).filter(({ callId }) => isAsked(String(callId)));
  const finished = named("job.finished");
  const runs = new Map<string, number>();
  for (const { callId, replayed } of finished) {
    if (replayed !== true) runs.set(String(callId), (runs.get(String(callId)) ?? 0) + 1);
  }
  return {
    runs,
    remembered: finished.filter(({ replayed }) => replayed === true),
    refused: [...named("job.refused"), ...named("job.failed")],
  };
}
