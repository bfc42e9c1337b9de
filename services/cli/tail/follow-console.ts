import { LIVE } from "../../../shared/console/contract/deployment.ts";
import { parseJson } from "../../../shared/platform/text/parse-json.ts";
import { delay } from "../../../shared/platform/time/clock.ts";
import { CallEvent, EventSender, LeftOut } from "../../../shared/telemetry/events/event.ts";
import { type Follower, type Following, NOTICED_MS } from "../../../shared/telemetry/events/follow.ts";
import { type ConsoleTarget, createConsoleClient, openConsoleStream } from "../console/client.ts";
import { reasonOf } from "../http.ts";
import { readEvents, type ServerEvent } from "../read-event-stream.ts";

/** Returns the paths of the endpoints in the console's configuration. */
export async function configuredPaths(target: ConsoleTarget): Promise<readonly string[]> {
  return (await createConsoleClient(target).getConfiguredNames()).endpoints;
}

/**
 * Passes the live events of all processes to `follower`. Unlike `follow`, reads them from the console's event stream
 * instead of Redis. Reconnects until `stop` is called. Throws if the console refuses the first request.
 */
export async function followConsole(target: ConsoleTarget, follower: Follower): Promise<Following> {
  const stop = new AbortController();
  const { signal } = stop;
  const open = () => openConsoleStream(target, LIVE.streamEvents, signal);
  const state = { lastEventId: "", retryMs: 2000 };
  const processes = new Set<string>();
  let hasFailed = false;

  function reportLoss(reason: string): void {
    if (!hasFailed && !signal.aborted) follower.onLost(reason);
    hasFailed = true;
  }

  function returned(): void {
    if (hasFailed) follower.onReturned();
    hasFailed = false;
  }

  function take({ event, data }: ServerEvent): void {
    const told = (parseJson(data) ?? {}) as Readonly<Record<string, unknown>>;
    if (event === "lost") reportLoss(`it has lost Redis: ${told["reason"]}`);
    else if (event === "restored") returned();
    else if (event !== "process" || isNew(data)) {
      if (!passEvent(event, told, follower)) follower.onUnreadable();
    }
  }

  /**
   * Whether the console names this process for the first time. After a reconnect it names all processes again, and the
   * follower must not be called twice for one process.
   */
  function isNew(process: string): boolean {
    if (processes.has(process)) return false;
    processes.add(process);
    return true;
  }

  async function readAll(first: AsyncIterable<Uint8Array>): Promise<void> {
    let body: AsyncIterable<Uint8Array> | undefined = first;
    while (!signal.aborted) {
      try {
        body ??= await open();
        returned();
        for await (const event of readEvents(body, state)) take(event);
        reportLoss("the console has ended the stream");
      } catch (error) {
        reportLoss(reasonOf(error));
      }
      body = undefined;
      await delay(state.retryMs, signal).catch(() => {});
    }
  }

  const reading = readAll(await open());
  return {
    noticed: delay(NOTICED_MS),
    async stop() {
      stop.abort();
      await reading;
    },
  };
}

/** Passes an event of the stream to the follower. Returns false if this release cannot parse the event. */
function passEvent(event: string, told: Readonly<Record<string, unknown>>, follower: Follower): boolean {
  const from = EventSender.safeParse(event === "process" ? told : told["from"]).data;
  if (from === undefined) return false;
  if (event === "process") {
    follower.onSender(from);
    return true;
  }
  if (event === "left_out") {
    const leftOut = LeftOut.safeParse(told["left_out"]).data;
    if (leftOut !== undefined) follower.onLeftOut(leftOut, from);
    return leftOut !== undefined;
  }
  const call = CallEvent.safeParse({ ...told, at: Date.parse(String(told["at"])) }).data;
  if (call !== undefined) follower.onEvent(call, from);
  return call !== undefined;
}
