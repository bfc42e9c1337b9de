import type { ServerResponse } from "node:http";
import type { Changes } from "../call/results/changes.ts";
import { createCheckLoop } from "../call/results/look.ts";
import type { ResultRead, Results } from "../call/results/store.ts";
import { hasInputEnded, onInputEnd } from "../http/input-end.ts";
import { sendProblem } from "../http/problem.ts";
import { toAppError } from "../platform/errors/app-error.ts";
import { failpoint } from "../platform/lifecycle/failpoint.ts";
import { createEventCounter } from "../platform/log/event-counter.ts";
import type { Logger } from "../platform/log/logger.ts";
import type { Clock } from "../platform/time/clock.ts";

/** Outcome of a call for a waiting client: the runner's answer, or why the call failed. */
export type Outcome = Extract<ResultRead, { kind: "answer" | "failed" | "failure" }>;

/**
 * A request whose client waits for the outcome of a call that is on disk. This object stays in memory as long as the
 * client waits, so it must not refer to the body.
 */
export type Waiting = {
  res: ServerResponse;
  callId: string;
  /** Maximum time to wait, in ms. */
  ms: number;
  /** Sends the answer. Without an outcome, it sends the 202 answer that clients get if they do not wait. */
  answer: (outcome: Outcome | undefined) => void;
};

/**
 * `answered`: the call has an outcome. `resultless`: the call has ended without an outcome that can be sent. `hung_up`:
 * the client has ended its side, or the connection is gone. `stopped`: the gateway shuts down.
 */
type Ending = "answered" | "resultless" | "timed_out" | "hung_up" | "stopped";

/**
 * State of the result that a request waits for. `open`: the call may still get an outcome. `unavailable`: Redis did not
 * answer.
 */
type ResultState =
  | "open"
  | "unavailable"
  | { ending: "answered"; outcome: Outcome }
  | { ending: "resultless"; outcome?: never };

/** Delay before a failed read of a result is repeated. */
const LOOK_AGAIN_MS = 1000;

export type AwaitResults = {
  /**
   * Waits for a call's outcome and then answers. Returns false if no wait begins: no time is left, no slot is free, the
   * client has ended its side, or the gateway shuts down. The caller must then answer at once.
   */
  begin(waiting: Waiting): boolean;
  /** Returns the number of waiting requests. */
  count(): number;
  /** Answers all waiting requests at once. From then on, no request waits, because the gateway shuts down. */
  end(): void;
};

type Deps = {
  results: Pick<Results, "read">;
  changes: Pick<Changes, "watch">;
  /** Limit on concurrent waits. Each waiting client keeps a connection open. */
  waitersMax: number;
  clock: Clock;
  log: Logger;
};

/**
 * Lets requests wait for the outcomes of their calls. A waiting request costs one timer and one watch, which reports
 * changes of its call. Its body is not kept.
 */
export function createAwaitResults({ results, changes, waitersMax, clock, log }: Deps): AwaitResults {
  const waits = new Set<() => void>();
  const overLimit = createEventCounter(log, "wait.over_limit", "warn");
  let isEnding = false;

  function wait({ res, callId, ms, answer }: Waiting): void {
    const since = clock();
    let isOver = false;

    function finish(ending: Ending, outcome?: Outcome): void {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      stopWatching();
      look.stop();
      res.off("close", onHangUp);
      stopListening();
      waits.delete(onEnd);
      if (!res.destroyed) respond(res, answer, outcome);
      log.info("wait.ended", { callId, ending, ms: clock() - since });
    }

    const look = createCheckLoop(async () => {
      const state = await readResult(results, callId);
      if (typeof state === "object") finish(state.ending, state.outcome);
      return state !== "unavailable";
    }, LOOK_AGAIN_MS);
    const onHangUp = (): void => finish("hung_up");
    const onEnd = (): void => finish("stopped");
    const timer = setTimeout(() => finish("timed_out"), ms);
    const stopWatching = changes.watch(callId, look.now);
    res.on("close", onHangUp);
    const stopListening = onInputEnd(res.req, onHangUp);
    waits.add(onEnd);
    look.now();
    failpoint("wait.begun");
  }

  return {
    begin(waiting) {
      if (isEnding || waiting.ms <= 0 || hasInputEnded(waiting.res.req)) return false;
      if (waits.size >= waitersMax) {
        overLimit.count("", { waitersMax });
        return false;
      }
      wait(waiting);
      return true;
    },
    count: () => waits.size,
    end() {
      isEnding = true;
      for (const onEnd of waits) onEnd();
      overLimit.flush();
    },
  };
}

async function readResult(results: Deps["results"], callId: string): Promise<ResultState> {
  try {
    const read = await results.read(callId);
    switch (read.kind) {
      case "answer":
      case "failed":
      case "failure":
        return { ending: "answered", outcome: read };
      case "pending":
      case "unknown": // a call without a delivery id has no record before it ends
        return "open";
      default:
        return { ending: "resultless" };
    }
  } catch (error) {
    return toAppError(error).code === "queue.unavailable" ? "unavailable" : { ending: "resultless" };
  }
}

function respond(res: ServerResponse, answer: Waiting["answer"], outcome: Outcome | undefined): void {
  failpoint("wait.before_answer");
  try {
    answer(outcome);
  } catch (unforeseen) {
    // If this error were thrown, the process would end.
    sendProblem(res.req, res, toAppError(unforeseen));
  }
}
