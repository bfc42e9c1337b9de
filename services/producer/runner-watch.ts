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

/** A runner counts as away after this many connections have failed without an answer in between. */
const FAILURES_IN_A_ROW = 3;

/**
 * Backoff between two probes of a runner that is away. A successful probe does not reset it, because the next calls may fail
 * again. Only an answer to a call resets it.
 */
const PAUSES: Backoff = { baseMs: 1000, capMs: 5000 };

/** Problem that the newest call has shown. `orEarlier` is set if the problem may have begun before `since`. */
type Trouble = { state: "failing" | "silent" | "away"; since: number; orEarlier?: boolean; reason: string };

/** Checks whether a connection to the runner can be made now. */
export type Probe = () => Promise<boolean>;

export type RunnerWatch = {
  isAway(): boolean;
  health(): RunnerHealth;
  /** A call begun at `since` could not connect. If the runner has answered since then, the failure does not count. */
  failed(reason: string, since: number): void;
  /** A call begun at `since` reached the runner, and got no answer. */
  unanswered(reason: string, since: number): void;
  /** The runner answered a call. `failure` is the message of an answer that shows a fault of the runner, such as a 500. */
  answered(failure?: string): void;
  /** Calls `listener` each time the runner goes away or returns. */
  onChange(listener: () => void): void;
  close(): void;
};

/**
 * Tracks from the results of a runner's calls whether the runner is away. While it is away, no call is sent to it, and only
 * one probe at a time. An outage logs only two lines: its begin and its end. Failed connections that do not become an outage
 * are counted, and logged at most once a second.
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

  function noteTrouble(state: Trouble["state"], reason: string): void {
    trouble = { ...(trouble?.state === state ? trouble : beginning(clock(), answeredAt)), state, reason };
  }

  function markAway(reason: string): void {
    noteTrouble("away", reason);
    log.warn("runner.down", { runner, url, reason });
    probeLater();
    for (const listener of listeners) listener();
  }

  /**
   * Schedules a probe after 50 to 100 % of the backoff. A range from 0 % would only help to spread the probes of many
   * processes.
   */
  function probeLater(): void {
    probes += 1;
    const pauseMs = backoffMs(pauses, probes, () => 0.5 + Math.random() / 2);
    timer = setTimeout(() => void probeOnce(), pauseMs);
  }

  async function probeOnce(): Promise<void> {
    const outage = trouble;
    const isThere = await probe();
    if (closed || trouble !== outage) return;
    if (isThere) markPresent();
    else probeLater();
  }

  function markPresent(failure?: string): void {
    const outage = isAway() ? trouble : undefined;
    failures = 0;
    if (failure === undefined) trouble = undefined;
    else noteTrouble("failing", failure);
    answeredAt = clock();
    if (outage === undefined) return;
    log.info("runner.up", { runner, url, awayMs: answeredAt - outage.since });
    clearTimeout(timer);
    for (const listener of listeners) listener();
  }

  /** Returns whether a call began before the last answer. Its failure says nothing about the current state. */
  const isOutdated = (since: number) => answeredAt !== undefined && since < answeredAt;

  return {
    isAway,
    health: () => {
      const state = answeredAt === undefined ? "unasked" : "answers";
      return { name: runner, url, state, ...trouble, answeredAt };
    },
    failed(reason, since) {
      if (closed || isAway() || isOutdated(since)) return;
      failures += 1;
      if (failures >= FAILURES_IN_A_ROW) markAway(reason);
      else noteTrouble("silent", reason);
    },
    unanswered(reason, since) {
      if (!closed && !isAway() && !isOutdated(since)) noteTrouble("silent", reason);
    },
    answered(failure) {
      if (closed) return;
      probes = 0;
      if (failures > 0 && trouble?.state === "silent")
        missed.count(trouble.reason, { runner, url, reason: trouble.reason });
      markPresent(failure);
    },
    onChange: (listener) => void listeners.push(listener),
    close() {
      closed = true;
      clearTimeout(timer);
      missed.flush();
    },
  };
}

/** Returns when a problem began: at `since`, or earlier if the runner has not answered since the producer started. */
function beginning(since: number, answeredAt: number | undefined): Pick<Trouble, "since" | "orEarlier"> {
  return { since, ...(answeredAt === undefined && { orEarlier: true }) };
}

const PROBE_MS = 2000;

/**
 * Creates a probe that requests `{url}/livez` on its own connection. Any answer means that the runner is reachable. A
 * connection without an answer means the same, because a call with such a connection does not count as unreachable either.
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
