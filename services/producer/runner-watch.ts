import { Client } from "undici";
import { createConnector } from "../../shared/http/connector.ts";
import { toAppError } from "../../shared/platform/errors/app-error.ts";
import { createEventCounter } from "../../shared/platform/log/event-counter.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import { type Backoff, backoffMs } from "../../shared/platform/time/backoff.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import type { RunnerHealth } from "../../shared/telemetry/processes/runner-health.ts";
import { exchange } from "./exchange.ts";
import { outcomeOf } from "./retry-policy.ts";

/** So many connections in a row that could not be made, with no answer in between, and the runner is away. */
const FAILURES_IN_A_ROW = 3;

/** The pauses between two probes of a runner that is away. Only an answer to a call begins them anew. */
const PAUSES: Backoff = { baseMs: 1000, capMs: 5000 };

/** What the newest call met instead of success. */
type Trouble = { state: "failing" | "silent" | "away"; since: number; orEarlier?: boolean; reason: string };

/** Whether a connection to the runner can be made now. */
export type Probe = () => Promise<boolean>;

export type RunnerWatch = {
  isAway(): boolean;
  health(): RunnerHealth;
  /**
   * A connection could not be made for a call that was begun at `since`. A failure that began before the last answer does not
   * count.
   */
  failed(reason: string, since: number): void;
  /** A call that was begun at `since` reached the runner, and got no answer. */
  unanswered(reason: string, since: number): void;
  /** The runner answered a call; `failure` is what it said if it is at fault. */
  answered(failure?: string): void;
  /** Calls `listener` each time the runner goes away or returns. */
  onChange(listener: () => void): void;
  close(): void;
};

/**
 * Tells whether a runner is away, from what its calls meet. While it is away, it is asked by one probe at a time, and never
 * by a call. Two log lines are all that an outage leaves; failures that end without one are counted once a second.
 */
export function createRunnerWatch({
  runner,
  url,
  probe,
  clock,
  log,
  pauses = PAUSES,
}: {
  runner: string;
  url: string;
  probe: Probe;
  clock: Clock;
  log: Logger;
  pauses?: Backoff;
}): RunnerWatch {
  const listeners: (() => void)[] = [];
  const missed = createEventCounter(log, "runner.connect_failed", "warn");
  let failures = 0;
  let probes = 0;
  let answeredAt: number | undefined;
  let trouble: Trouble | undefined;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  const isAway = () => trouble?.state === "away";

  function meet(state: Trouble["state"], reason: string): void {
    trouble = { ...(trouble?.state === state ? trouble : beginning(clock(), answeredAt)), state, reason };
  }

  function leave(reason: string): void {
    meet("away", reason);
    log.warn("runner.down", { runner, url, reason });
    probeLater();
    for (const listener of listeners) listener();
  }

  /** A pause lasts at least half of what the backoff allows: there is only one prober, and nothing to be gained by haste. */
  function probeLater(): void {
    probes += 1;
    const pauseMs = backoffMs(pauses, probes, () => 0.5 + Math.random() / 2);
    timer = setTimeout(() => void look(), pauseMs);
  }

  async function look(): Promise<void> {
    const outage = trouble;
    const isThere = await probe();
    if (closed || trouble !== outage) return;
    if (isThere) present();
    else probeLater();
  }

  function present(failure?: string): void {
    const outage = isAway() ? trouble : undefined;
    failures = 0;
    if (failure === undefined) trouble = undefined;
    else meet("failing", failure);
    answeredAt = clock();
    if (outage === undefined) return;
    log.info("runner.up", { runner, url, awayMs: answeredAt - outage.since });
    clearTimeout(timer);
    for (const listener of listeners) listener();
  }

  /** A call that was begun before the last answer says nothing of now. */
  const isOld = (since: number) => answeredAt !== undefined && since < answeredAt;

  return {
    isAway,
    health: () => {
      const state = answeredAt === undefined ? "unasked" : "answers";
      return { name: runner, url, state, ...trouble, answeredAt };
    },
    failed(reason, since) {
      if (closed || isAway() || isOld(since)) return;
      failures += 1;
      if (failures >= FAILURES_IN_A_ROW) leave(reason);
      else meet("silent", reason);
    },
    unanswered(reason, since) {
      if (!closed && !isAway() && !isOld(since)) meet("silent", reason);
    },
    answered(failure) {
      if (closed) return;
      probes = 0;
      if (failures > 0 && trouble?.state === "silent")
        missed.count(trouble.reason, { runner, url, reason: trouble.reason });
      present(failure);
    },
    onChange: (listener) => void listeners.push(listener),
    close() {
      closed = true;
      clearTimeout(timer);
      missed.flush();
    },
  };
}

/** A producer that has met no answer since its start does not know when the trouble began. */
function beginning(since: number, answeredAt: number | undefined): Pick<Trouble, "since" | "orEarlier"> {
  return { since, ...(answeredAt === undefined && { orEarlier: true }) };
}

const PROBE_MS = 2000;

/**
 * Asks for `{url}/livez` on a connection of its own. Any answer says that the runner is there; so does a connection that was
 * made and gave no answer, because a call that meets that is not an unreachable one either.
 */
export function createProbe(url: string): Probe {
  const { origin, pathname } = new URL(url);
  const path = `${pathname.replace(/\/$/, "")}/livez`;
  const connect = createConnector({ timeout: PROBE_MS });
  return async () => {
    const client = new Client(origin, { connect, headersTimeout: 0, bodyTimeout: 0 });
    try {
      await exchange(client, { method: "GET", path }, { timeoutMs: PROBE_MS });
      return true;
    } catch (error) {
      return outcomeOf(toAppError(error)).peer !== "unreachable";
    } finally {
      client.destroy().catch(() => {});
    }
  };
}
