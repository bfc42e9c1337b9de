import { EXIT, withStopSignal } from "../../../shared/platform/lifecycle/run-service.ts";
import { toIso } from "../../../shared/platform/time/iso.ts";
import {
  type CallEvent,
  type EventFilter,
  type EventSender,
  isWanted,
  type LeftOut,
} from "../../../shared/telemetry/events/event.ts";
import { type Follower, type Following, follow } from "../../../shared/telemetry/events/follow.ts";
import type { EventOutcome } from "../../../shared/telemetry/events/outcomes.ts";
import { SENT_PER_SECOND_MAX } from "../../../shared/telemetry/events/publish.ts";
import { whyNoneAt } from "../endpoints/unknown-path.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { cutToWidth } from "../table.ts";
import { counted, duration, jsonLine, plain } from "../text.ts";
import { type OperationTarget, withConsole } from "../with-operations.ts";
import { withRedis } from "../with-redis.ts";

export type TailOptions = OperationTarget & {
  endpoint?: string;
  job?: string;
  origin?: CallEvent["origin"];
  outcome?: EventOutcome[];
  call?: string;
  json?: boolean;
};

/**
 * `postern tail`: prints the events of calls as they happen, from all gateways and producers. Events go to stdout, and
 * remarks about the connection to stderr.
 */
export function tail(deps: ProgramDeps, options: TailOptions): Promise<number> {
  const { configDir, operator: url, endpoint } = options;
  return withStopSignal((stopped) => {
    const show = async (paths: readonly string[], begin: (follower: Follower) => Promise<Following>) => {
      const problem = whyNoneAt(endpoint, paths);
      if (problem !== undefined) deps.note(`warning: ${problem}\n`);
      const view = createView(deps, options);
      const following = await begin(view.follower);
      await Promise.race([following.noticed, stopped]);
      view.begin();
      await stopped;
      await following.stop();
      return EXIT.ok;
    };
    if (url === undefined)
      return withRedis(deps, { configDir }, ({ partition, paths }) =>
        show(paths(), (follower) => follow(partition, follower)),
      );
    return withConsole(deps, { configDir, url }, async (target) => {
      const { followConsole, configuredPaths } = await import("./follow-console.ts");
      return show(await configuredPaths(target), (follower) => followConsole(target, follower));
    });
  });
}

function createView(deps: ProgramDeps, options: TailOptions) {
  const { json, operator, endpoint, job, origin, outcome, call } = options;
  const filter: EventFilter = { endpoint, job, origin, outcomes: outcome, callId: call };
  const source = operator === undefined ? "Redis" : "the console";
  const { print, note, terminal } = deps;
  const { columns } = terminal;
  const isJson = json === true || columns === undefined;
  const processes: EventSender[] = [];
  let hasBegun = false;
  let saidUnreadable = false;
  const say = (text: string) => note(`${text}\n`);
  const show = (line: string) => print(`${cutToWidth(line, columns ?? Number.POSITIVE_INFINITY)}\n`);

  const follower: Follower = {
    onEvent(event) {
      if (!isWanted(event, filter)) return;
      if (isJson) print(jsonLine({ ...event, at: toIso(event.at) }));
      else show(toLine(event));
    },
    onLeftOut(leftOut, from) {
      const wanted = Object.entries(leftOut).filter(
        ([outcome]) => filter.outcomes?.some((each) => each === outcome) ?? true,
      );
      if (wanted.length === 0) return;
      if (isJson) print(jsonLine({ left_out: Object.fromEntries(wanted), from }));
      else show(leftOutLine(Object.fromEntries(wanted), from));
    },
    onSender(teller) {
      processes.push(teller);
      if (hasBegun) say(`also following: ${nameOf(teller)}`);
    },
    onLost: (reason) =>
      say(`connection to ${source} lost (${plain(reason)}); events are not shown until it is restored`),
    onReturned: () => say(`reconnected to ${source}; following again`),
    onUnreadable() {
      if (!saidUnreadable)
        say(
          "some events are not shown, because this release cannot read them; use the release of the process that sent them",
        );
      saidUnreadable = true;
    },
  };
  return {
    follower,
    begin(): void {
      hasBegun = true;
      say(
        `following: ${processes.length === 0 ? "no gateway or producer is running yet" : processes.map(nameOf).join(", ")}`,
      );
    },
  };
}

const SERVICES: Readonly<Record<EventSender["service"], string>> = {
  webhooks: "webhooks gateway",
  x402: "payment gateway",
  producer: "producer",
};

function nameOf({ service, process }: EventSender): string {
  return `${SERVICES[service]} ${plain(process)}`;
}

/** Length of a call id: `c_` and 32 hex digits. */
const CALL_ID_CHARS = 34;

/** Formats an event for people on one line: local time, outcome, endpoint or job, call, and the rest. */
export function toLine(event: CallEvent): string {
  const place = placeOf(event);
  const cells = [
    timeOf(event.at),
    wordOf(event.outcome).padEnd(8),
    place.padEnd(20),
    (event.call_id ?? "-").padEnd(CALL_ID_CHARS),
    problemDetail(event),
  ];
  return plain(cells.join("  ")).trimEnd();
}

/** Returns the word for an outcome in output for people. JSON uses the stored name, on which older scripts rely. */
function wordOf(outcome: string): string {
  return outcome === "retried" ? "delayed" : outcome;
}

function placeOf(event: CallEvent): string {
  if (event.endpoint !== undefined) return event.endpoint;
  if (event.job !== undefined) return `job ${event.job}`;
  return ("path" in event ? event.path : undefined) ?? event.origin;
}

function timeOf(at: number): string {
  const time = new Date(at);
  const two = (value: number) => String(value).padStart(2, "0");
  const clock = [time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(":");
  return `${clock}.${String(time.getMilliseconds()).padStart(3, "0")}`;
}

function problemDetail(event: CallEvent): string {
  switch (event.outcome) {
    case "accepted":
      return words([
        event.endpoint !== undefined && event.job !== undefined && `job ${event.job}`,
        event.replayed && "repeat",
        event.bytes !== undefined && counted(event.bytes, "byte"),
        event.payer !== undefined && `paid by ${event.payer}`,
      ]);
    case "refused":
      return words([
        event.code,
        event.reason,
        event.times > 1 && `${event.times} times`,
        event.address !== undefined && `from ${event.address}`,
      ]);
    case "injected":
      return words([attemptText(event), `${event.end_to_end_ms} ms after it was accepted`]);
    case "retried":
      return words([
        attemptText(event),
        event.code,
        `next attempt in ${duration(Math.max(1000, event.wait_ms))}`,
        event.reason,
      ]);
    case "failed":
      return words([attemptText(event), event.code, event.reason]);
  }
}

/**
 * Formats the number of the attempt. The number starts again at 1 after a replay. So the text adds the total number of
 * attempts if it differs.
 */
function attemptText({ attempt, attempts_before }: { attempt: number; attempts_before: number }): string {
  const total = attempts_before + 1;
  return total === attempt ? `attempt ${attempt}` : `attempt ${attempt} (${total} in all)`;
}

function words(parts: readonly (string | false | undefined)[]): string {
  return parts.filter((part) => part !== false && part !== undefined && part !== "").join("; ");
}

function leftOutLine(leftOut: LeftOut, from: EventSender): string {
  const counts = Object.entries(leftOut).map(([outcome, count]) => `${count} ${wordOf(outcome)}`);
  const bound = `above its limit of ${SENT_PER_SECOND_MAX.events} events or ${SENT_PER_SECOND_MAX.bytes / 1024} KiB per second`;
  return `${"".padEnd(14)}not shown: ${plain(counts.join(", "))} (${nameOf(from)}, ${bound})`;
}
