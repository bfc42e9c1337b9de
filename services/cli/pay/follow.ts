import { delay, systemClock } from "../../../shared/platform/time/clock.ts";
import { barOf } from "../bar.ts";
import { get } from "../http.ts";
import type { Terminal } from "../terminal.ts";
import { jsonLine, plain } from "../text.ts";
import { PayFailure, type Purchase } from "./purchase.ts";
import type { ReportStep } from "./send.ts";
import { type WatchOutcome, watch } from "./watch.ts";

type FollowOptions = {
  /**
   * The result token, if the gateway's answer contained one. Without it, the gateway shows only the state of the call
   * and no progress.
   */
  token: string | undefined;
  /** Unix ms. */
  deadline: number;
  report: ReportStep;
  /** The terminal on which a progress bar is drawn. If undefined, progress is printed as lines. */
  screen: Pick<Terminal, "redraw"> | undefined;
};

/**
 * Watches a paid call until it ends or the deadline passes. Prints each state of the call and the progress of a long
 * job, and writes the outcome into `purchase`. Throws PayFailure if the job did not run in time, or has failed.
 */
export async function followCall(
  url: URL,
  purchase: Purchase,
  { token, deadline, report, screen }: FollowOptions,
): Promise<void> {
  const { statusUrl } = purchase;
  const followed = statusUrl === undefined ? undefined : onPaidOrigin(statusUrl, url);
  if (followed === undefined) return;
  if (followed.href !== new URL(String(statusUrl), url).href) {
    const text = `following the call at ${followed.href} instead of ${statusUrl}, because only ${url.host} was paid\n`;
    report("followed", { url: followed.href }, text);
  }
  purchase.followedUrl = followed.href;
  const progress = createProgress(screen, report);
  const onState = (state: string): void => {
    progress.clear();
    report("state", { state }, `state: ${plain(state)}${MEANING[state] ?? ""}\n`);
  };
  const watched = await watch(followed, { token, deadline, onState, onProgress: progress.update });
  progress.clear();
  purchase.state = watched.kind === "unwatched" ? await poll(followed, deadline, onState) : watched.state;
  const failure = failureOf(purchase.state, watched);
  if (failure !== undefined) {
    const reason = `you have paid, but ${failure}. Its state: ${followed.href}`;
    throw new PayFailure(hasEnded(purchase.state) ? "failed" : "accepted", { reason });
  }
  purchase.outcome = "injected";
}

/** Explanations of states. Other states need no explanation. */
const MEANING: Readonly<Record<string, string>> = {
  queued: " (accepted, and not ended yet)",
  injected: " (the runner answered with 2xx)",
};

function failureOf(state: string | undefined, watched: WatchOutcome): string | undefined {
  const failed = watched.kind === "ended" && watched.result === "failed";
  if (state === "injected" && !failed) return undefined;
  if (state === undefined) return "the state of the job could not be read. Do not pay again";
  const { code, status, title, detail } = (failed && watched.failure) || {};
  const said = [title, detail].filter((each) => each !== undefined).join("; ");
  const why = [code ?? status, said].filter((each) => each !== undefined && each !== "").join(": ");
  const because = plain(why === "" ? "" : ` (${why})`);
  if (state === "failed")
    return `the job failed${because}. Do not pay again: the seller can run it again or refund it`;
  if (state === "injected") return `the job failed${because}`;
  if (hasEnded(state)) return `the state of the job is ${state}${because}`;
  return plain(`the job did not end in time: it is ${state}. Do not pay again`);
}

/** Draws the progress of a job on a screen, or prints it as lines if there is no screen. */
function createProgress(screen: FollowOptions["screen"], report: ReportStep) {
  let isDrawn = false;
  return {
    update(progress: Readonly<Record<string, unknown>>): void {
      const words = jsonLine(progress).trim();
      if (screen === undefined) report("progress", { progress }, `progress: ${words}\n`);
      else screen.redraw(lineOf(progress) ?? words);
      isDrawn = screen !== undefined;
    },
    /** Removes the bar from the screen before the next line is printed. */
    clear(): void {
      if (isDrawn) screen?.redraw("");
      isDrawn = false;
    },
  };
}

const PAIRS = [
  ["done", "total"],
  ["step", "steps"],
] as const;

/** Formats a bar for a job that reports its progress by `done` and `total`, `step` and `steps`, or `percent`. */
function lineOf(progress: Readonly<Record<string, unknown>>): string | undefined {
  for (const [name, of] of PAIRS) {
    const [done, total] = [progress[name], progress[of]];
    if (typeof done === "number" && typeof total === "number" && done >= 0 && total > 0)
      return `${barOf(done / total)} ${done}/${total}`;
  }
  const percent = progress["percent"];
  return typeof percent === "number" && percent >= 0 ? barOf(percent / 100) : undefined;
}

const POLL_MS = 500;

/** States that no longer change without an operator. */
const ENDS = ["injected", "failed", "discarded", "refund_pending", "refunded", "void", "review"];

function hasEnded(state: string | undefined): boolean {
  return state !== undefined && ENDS.includes(state);
}

/**
 * Polls the gateway for a call's state, until the call ends or the deadline passes. Used if the gateway offers no event
 * stream (watch.ts). Resolves with the last state that it read.
 */
async function poll(
  url: URL,
  deadline: number,
  onState: (state: string) => void,
): Promise<string | undefined> {
  let last: string | undefined;
  while (systemClock() < deadline) {
    const state = await readState(url, deadline).catch(() => undefined);
    if (state !== undefined && state !== last) onState(state);
    last = state ?? last;
    if (hasEnded(last)) return last;
    await delay(Math.min(POLL_MS, Math.max(1, deadline - systemClock())));
  }
  return last;
}

async function readState(url: URL, deadline: number): Promise<string | undefined> {
  const { status, json } = await get(url, deadline);
  return status === 200 && typeof json["state"] === "string" ? json["state"] : undefined;
}

/**
 * Returns a URL from the gateway's answer, but with the host of the URL that was paid. The user has chosen only that
 * host, so requests with a token must not go to another. Besides, the answer may name a public host that this machine
 * cannot reach. Returns undefined if the text is not a URL.
 */
export function onPaidOrigin(named: string, paid: URL): URL | undefined {
  if (!URL.canParse(named, paid.href)) return undefined;
  const { pathname, search } = new URL(named, paid.href);
  const url = new URL(paid.origin);
  // `new URL(pathname, paid)` would read a path that begins with two slashes as a host. So the path is assigned instead.
  url.pathname = pathname;
  url.search = search;
  return url;
}
