import type { ServerResponse } from "node:http";
import type { Changes } from "../call/results/changes.ts";
import { createLook } from "../call/results/look.ts";
import type { ResultRead, Results } from "../call/results/store.ts";
import { hasInputEnded, onInputEnd } from "../http/input-end.ts";
import { sendProblem } from "../http/problem.ts";
import { toAppError } from "../platform/errors/app-error.ts";
import { failpoint } from "../platform/lifecycle/failpoint.ts";
import { createEventCounter } from "../platform/log/event-counter.ts";
import type { Logger } from "../platform/log/logger.ts";
import type { Clock } from "../platform/time/clock.ts";

/** What a client that waits is answered with: what the runner answered, or why the call failed. */
export type Outcome = Extract<ResultRead, { kind: "answer" | "failed" | "failure" }>;

/** A request whose call is on disk, and whose client waits for what it comes to. It lives as long as the wait: it is to be small. */
export type Waiting = {
  res: ServerResponse;
  callId: string;
  /** How long it waits at most. */
  ms: number;
  /** Gives the answer. Without an outcome it is the one that is given to who does not wait. */
  answer: (outcome: Outcome | undefined) => void;
};

/**
 * `answered`: the call had come to something. `resultless`: it has ended, and there is nothing to be told of it. `hung_up`: the
 * client has ended its side, or the connection is gone. `stopped`: the gateway ends.
 */
type Ending = "answered" | "resultless" | "timed_out" | "hung_up" | "stopped";

/** What a look at a call's result has shown. */
type Seen =
  | "open"
  | "unavailable"
  | { ending: "answered"; outcome: Outcome }
  | { ending: "resultless"; outcome?: never };

/** A result that cannot be read is looked for again after so long. */
const LOOK_AGAIN_MS = 1000;

export type AwaitResults = {
  /**
   * Waits for the result of a call, and answers in the end. False if nothing waits: there is no time, no place, the client has ended
   * its side, or the gateway ends. The request is then answered as one whose client does not wait.
   */
  begin(waiting: Waiting): boolean;
  /** How many wait. */
  count(): number;
  /** Answers all who wait at once, and begins no more waits. */
  end(): void;
};

type Deps = {
  results: Pick<Results, "read">;
  changes: Pick<Changes, "watch">;
  /** So many may wait at a time, each with a connection of its own. */
  waitersMax: number;
  clock: Clock;
  log: Logger;
};

/** Holds answers until the results are there: one timer and one watched call for each, and nothing of the request's body. */
export function createAwaitResults({ results, changes, waitersMax, clock, log }: Deps): AwaitResults {
  const ends = new Set<() => void>();
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
      ends.delete(onEnd);
      if (!res.destroyed) respond(res, answer, outcome);
      log.info("wait.ended", { callId, ending, ms: clock() - since });
    }

    const look = createLook(async () => {
      const seen = await see(results, callId);
      if (typeof seen === "object") finish(seen.ending, seen.outcome);
      return seen !== "unavailable";
    }, LOOK_AGAIN_MS);
    const onHangUp = (): void => finish("hung_up");
    const onEnd = (): void => finish("stopped");
    const timer = setTimeout(() => finish("timed_out"), ms);
    const stopWatching = changes.watch(callId, look.now);
    res.on("close", onHangUp);
    const stopListening = onInputEnd(res.req, onHangUp);
    ends.add(onEnd);
    look.now();
    failpoint("wait.begun");
  }

  return {
    begin(waiting) {
      if (isEnding || waiting.ms <= 0 || hasInputEnded(waiting.res.req)) return false;
      if (ends.size >= waitersMax) {
        overLimit.count("", { waitersMax });
        return false;
      }
      wait(waiting);
      return true;
    },
    count: () => ends.size,
    end() {
      isEnding = true;
      for (const onEnd of ends) onEnd();
      overLimit.flush();
    },
  };
}

async function see(results: Deps["results"], callId: string): Promise<Seen> {
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
    // Thrown further it would end the process.
    sendProblem(res.req, res, toAppError(unforeseen));
  }
}
