import { LIVE } from "../../../shared/console/contract/deployment.ts";
import { parseJson } from "../../../shared/platform/text/parse-json.ts";
import { delay } from "../../../shared/platform/time/clock.ts";
import { CallEvent, LeftOut, Teller } from "../../../shared/telemetry/events/event.ts";
import { type Follower, type Following, NOTICED_MS } from "../../../shared/telemetry/events/follow.ts";
import { type ConsoleTarget, createConsoleClient, openConsoleStream } from "../console/client.ts";
import { reasonOf } from "../http.ts";
import { readEvents, type ServerEvent } from "../read-event-stream.ts";

/** The paths of the endpoints that the console knows. */
export async function configuredPaths(target: ConsoleTarget): Promise<readonly string[]> {
  return (await createConsoleClient(target).getConfiguredNames()).endpoints;
}

/** Follows all processes of a deployment by its console, and connects again until it is stopped. Throws if the console refuses it at first. */
export async function followConsole(target: ConsoleTarget, follower: Follower): Promise<Following> {
  const stop = new AbortController();
  const { signal } = stop;
  const open = () => openConsoleStream(target, LIVE.streamEvents, signal);
  const state = { lastEventId: "", retryMs: 2000 };
  const processes = new Set<string>();
  let isLost = false;

  function lost(reason: string): void {
    if (!isLost && !signal.aborted) follower.onLost(reason);
    isLost = true;
  }

  function returned(): void {
    if (isLost) follower.onReturned();
    isLost = false;
  }

  function take({ event, data }: ServerEvent): void {
    const told = (parseJson(data) ?? {}) as Readonly<Record<string, unknown>>;
    if (event === "lost") lost(`it has lost Redis: ${told["reason"]}`);
    else if (event === "restored") returned();
    else if (event !== "process" || isNew(data)) {
      if (!tell(event, told, follower)) follower.onUnreadable();
    }
  }

  /** Each connection begins with the processes of the one before. */
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
        lost("the console has ended the stream");
      } catch (error) {
        lost(reasonOf(error));
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

/** Tells the follower of an event. False if this release cannot read it. */
function tell(event: string, told: Readonly<Record<string, unknown>>, follower: Follower): boolean {
  const from = Teller.safeParse(event === "process" ? told : told["from"]).data;
  if (from === undefined) return false;
  if (event === "process") {
    follower.onTeller(from);
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
