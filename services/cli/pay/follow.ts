import { delay, systemClock } from "../../../shared/time/clock.ts";
import { reasonOf, toAnswer } from "./send.ts";

const POLL_MS = 500;

/** States after which nothing happens by itself. */
const ENDS = ["injected", "failed", "discarded", "void", "review"];

type Following = { deadline: number; onState: (state: string) => void };

/** Asks for a call's state until it ends or the deadline passes; resolves with the last state, if any was told. */
export async function follow(url: URL, { deadline, onState }: Following): Promise<string | undefined> {
  let last: string | undefined;
  while (systemClock() < deadline) {
    const state = await ask(url, deadline).catch((error: unknown) => void reasonOf(error));
    if (state !== undefined && state !== last) onState(state);
    last = state ?? last;
    if (last !== undefined && ENDS.includes(last)) return last;
    await delay(Math.min(POLL_MS, Math.max(1, deadline - systemClock())));
  }
  return last;
}

async function ask(url: URL, deadline: number): Promise<string | undefined> {
  const signal = AbortSignal.timeout(Math.max(1, deadline - systemClock()));
  const { status, json } = await toAnswer(await fetch(url.href, { redirect: "error", signal }));
  return status === 200 && typeof json["state"] === "string" ? json["state"] : undefined;
}

/**
 * Where the call can be followed: on the origin that was paid, whatever host the answer names. A gateway behind a proxy
 * names its public address, which may not be reachable from here, and nobody else is asked.
 */
export function toFollowed(statusUrl: string, paid: URL): URL | undefined {
  if (!URL.canParse(statusUrl, paid.href)) return undefined;
  const { pathname, search } = new URL(statusUrl, paid.href);
  return new URL(`${pathname}${search}`, paid.origin);
}
