import { delay, systemClock } from "../../../shared/time/clock.ts";
import { type Answer, get, type Post, post, reasonOf, textIn, wordsOf } from "../http.ts";
import { PayFailure } from "./purchase.ts";
import { CALL_FAILED } from "./result.ts";

/** Tells of a step: one JSON object with --json, and a text for people otherwise. */
export type Tell = (step: string, fields: object, text: string) => void;

const WAIT_MS_MIN = 200;
const WAIT_MS_MAX = 30_000;
const WAIT_MS_OTHERWISE = 1000;

/**
 * Sends a paid request until the answer says whether money moved. Every repeat is the very same request: the gateway
 * charges it once, while a new payment would be charged again. At the deadline (unix ms) it resolves with the last answer if no try was
 * taken, and throws PayFailure otherwise. Throws the signal's reason when the signal is aborted.
 */
export async function sendUntilAnswered(
  request: Post,
  deadline: number,
  signal: AbortSignal,
  tell: Tell,
): Promise<Answer> {
  let statusUrl: string | undefined;
  let mayBeCharged = false;
  for (;;) {
    const answer = await post(request, deadline, signal).catch((error: unknown) => reasonOf(error));
    if (typeof answer !== "string" && !isOpen(answer)) return answer;
    signal.throwIfAborted();
    const { reason, waitMs, refusal, ...told } = leftBy(answer);
    statusUrl = told.statusUrl ?? statusUrl;
    mayBeCharged ||= refusal === undefined;
    if (systemClock() + waitMs >= deadline) {
      if (refusal !== undefined && !mayBeCharged) return refusal;
      throw new PayFailure("unknown", { reason, statusUrl });
    }
    const text = `no answer yet (${reason}); the same payment again in ${(waitMs / 1000).toFixed(1)} s\n`;
    tell("retrying", { reason, wait_ms: waitMs }, text);
    await delay(waitMs, signal);
  }
}

/** What a try leaves that has no final answer. It is a `refusal` if nothing was charged by it. */
function leftBy(answer: Answer | string) {
  if (typeof answer === "string") return { reason: answer, waitMs: WAIT_MS_OTHERWISE };
  return {
    reason: wordsOf(answer),
    waitMs: retryAfterMs(answer),
    statusUrl: textIn(answer, "status_url"),
    refusal: UNCHARGED.includes(answer.json["code"]) ? answer : undefined,
  };
}

/** An operator has to decide, so that asking again is of no use; or the call that is paid for has failed. */
const FINAL: readonly unknown[] = ["payment.in_review", CALL_FAILED];

function isOpen({ status, json }: Answer): boolean {
  return (status >= 500 || status === 429) && !FINAL.includes(json["code"]);
}

/** What a gateway answers before it has claimed the payment: nothing was charged. */
const UNCHARGED: readonly unknown[] = ["payment.unavailable", "price.unavailable"];

function retryAfterMs({ headers }: Answer): number {
  const seconds = Number(headers.get("retry-after") ?? Number.NaN);
  const ms = Number.isFinite(seconds) ? seconds * 1000 : WAIT_MS_OTHERWISE;
  return Math.min(WAIT_MS_MAX, Math.max(WAIT_MS_MIN, ms));
}

/**
 * Runs work whose outcome is unknown until it ends. A Ctrl-C aborts its signal with a PayFailure that says so; a second one
 * ends the process.
 */
export async function interruptible<Result>(work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
  const controller = new AbortController();
  const interrupt = () => controller.abort(new PayFailure("unknown", { reason: "interrupted" }));
  process.once("SIGINT", interrupt);
  try {
    return await work(controller.signal);
  } finally {
    process.off("SIGINT", interrupt);
  }
}

const POLL_MS = 500;

/** States after which nothing happens by itself. */
const ENDS = ["injected", "failed", "discarded", "refund_pending", "refunded", "void", "review"];

/** Asks for a call's state until the call ends or the deadline passes. Resolves with the last state, if any was read. */
export async function follow(
  url: URL,
  deadline: number,
  onState: (state: string) => void,
): Promise<string | undefined> {
  let last: string | undefined;
  while (systemClock() < deadline) {
    const state = await readState(url, deadline).catch(() => undefined);
    if (state !== undefined && state !== last) onState(state);
    last = state ?? last;
    if (last !== undefined && ENDS.includes(last)) return last;
    await delay(Math.min(POLL_MS, Math.max(1, deadline - systemClock())));
  }
  return last;
}

async function readState(url: URL, deadline: number): Promise<string | undefined> {
  const { status, json } = await get(url, deadline);
  return status === 200 && typeof json["state"] === "string" ? json["state"] : undefined;
}

/**
 * Where a call is followed: on the origin that was paid, whatever host the answer names. A gateway behind a proxy names its
 * public address, which may not be reachable from here, and no other host is to be trusted.
 */
export function toFollowed(statusUrl: string, paid: URL): URL | undefined {
  if (!URL.canParse(statusUrl, paid.href)) return undefined;
  const { pathname, search } = new URL(statusUrl, paid.href);
  return new URL(`${pathname}${search}`, paid.origin);
}
