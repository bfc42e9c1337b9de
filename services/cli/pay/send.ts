import { messageOf } from "../../../shared/errors/app-error.ts";
import { delay, systemClock } from "../../../shared/time/clock.ts";
import { plain } from "../text.ts";
import { PayFailure } from "./purchase.ts";

type Request = { url: URL; headers: Record<string, string>; body: Uint8Array | undefined };

export type Answer = { status: number; headers: Headers; json: Readonly<Record<string, unknown>> };

type Trying = {
  deadline: number;
  /** Aborted, with the failure to throw, where nobody waits for the answer any more. */
  signal: AbortSignal;
  say: (text: string) => void;
};

const ATTEMPT_MS = 60_000;
const WAIT_MS_MIN = 200;
const WAIT_MS_MAX = 30_000;
const WAIT_MS_OTHERWISE = 1000;

/** One POST; no redirect is followed, since a payment is for one place. */
export async function post(
  { url, headers, body }: Request,
  deadline: number,
  signal?: AbortSignal,
): Promise<Answer> {
  const late = AbortSignal.timeout(Math.max(1, Math.min(ATTEMPT_MS, deadline - systemClock())));
  const response = await fetch(url, {
    method: "POST",
    headers,
    ...(body !== undefined && { body }),
    redirect: "error",
    signal: signal === undefined ? late : AbortSignal.any([late, signal]),
  });
  return toAnswer(response);
}

/**
 * Sends a paid request until it has an answer. Whatever leaves open whether money moved is followed by the very same
 * request: the gateway charges it once, where a new payment would be charged again. Throws at the deadline and when
 * the signal is aborted.
 */
export async function sendUntilAnswered(
  request: Request,
  { deadline, signal, say }: Trying,
): Promise<Answer> {
  let statusUrl: string | undefined;
  for (;;) {
    const attempt = await post(request, deadline, signal).catch((error: unknown) => reasonOf(error));
    if (typeof attempt !== "string" && !isOpen(attempt)) return attempt;
    signal.throwIfAborted();
    const { why, waitMs, ...told } = typeof attempt === "string" ? noAnswer(attempt) : openAnswer(attempt);
    statusUrl = told.statusUrl ?? statusUrl;
    if (systemClock() + waitMs >= deadline) throw new PayFailure(why, { outcome: "unknown", statusUrl });
    say(`no answer yet (${why}); the same payment again in ${(waitMs / 1000).toFixed(1)} s\n`);
    await delay(waitMs, signal);
  }
}

function noAnswer(why: string) {
  return { why, waitMs: WAIT_MS_OTHERWISE, statusUrl: undefined };
}

function openAnswer(answer: Answer) {
  return {
    why: wordsOf(answer),
    waitMs: retryAfterMs(answer),
    statusUrl: textIn(answer, "status_url"),
  };
}

async function toAnswer(response: Response): Promise<Answer> {
  const text = await response.text();
  return { status: response.status, headers: response.headers, json: parsed(text) };
}

/** A text member of an answer, as a terminal may show it. */
export function textIn({ json }: Answer, name: string): string | undefined {
  return typeof json[name] === "string" ? plain(json[name]) : undefined;
}

/** What an answer says of itself, for people. */
export function wordsOf({ status, json }: Answer): string {
  const said = [json["code"], json["detail"] ?? json["error"]].filter((part) => typeof part === "string");
  return plain([status, ...said].join(" "));
}

/** Codes of failures that asking again does not mend soon: an operator has to, and two of them say that nothing is charged. */
const FINAL: readonly unknown[] = ["payment.in_review", "payment.unavailable", "price.unavailable"];

function isOpen({ status, json }: Answer): boolean {
  return (status >= 500 || status === 429) && !FINAL.includes(json["code"]);
}

function retryAfterMs({ headers }: Answer): number {
  const seconds = Number(headers.get("retry-after") ?? Number.NaN);
  const ms = Number.isFinite(seconds) ? seconds * 1000 : WAIT_MS_OTHERWISE;
  return Math.min(WAIT_MS_MAX, Math.max(WAIT_MS_MIN, ms));
}

/** `fetch failed` has its reason one deeper. */
export function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  return plain(cause === undefined ? messageOf(error) : messageOf(cause));
}

function parsed(text: string): Record<string, unknown> {
  try {
    const json: unknown = JSON.parse(text);
    return typeof json === "object" && json !== null ? (json as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** Does work whose outcome is unknown until it ends: a Ctrl-C aborts its signal with that. A second one ends the process. */
export async function interruptible<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
  const controller = new AbortController();
  const interrupt = () => controller.abort(new PayFailure("interrupted", { outcome: "unknown" }));
  process.once("SIGINT", interrupt);
  try {
    return await work(controller.signal);
  } finally {
    process.off("SIGINT", interrupt);
  }
}

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
