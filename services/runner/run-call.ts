import { messageOf } from "../../shared/errors/app-error.ts";
import { failpoint } from "../../shared/lifecycle/failpoint.ts";
import { type CallStore, requestOf } from "./call-store.ts";
import type { Leases } from "./leases.ts";
import type { Offer } from "./offer.ts";
import { busy, reused, unavailable } from "./refusals.ts";
import { type HttpAnswer, isSuccess } from "./router.ts";

export type Outcome = {
  readonly answer: HttpAnswer;
  readonly kind: "finished" | "failed" | "stored" | "replayed";
};

type Deps = {
  calls: CallStore;
  leases: Leases;
  runShort: (offer: Offer) => Promise<HttpAnswer>;
  storeLong: (offer: Offer) => Promise<HttpAnswer>;
};

export type RunCall = (offer: Offer) => Promise<Outcome>;

/**
 * Runs an offered call, or answers it from memory. A call that succeeded is never run again while it is remembered; one
 * that runs, here or under another runner's lease, is `runner.busy`. Of a call it began, this runner knows by itself
 * until the end is on disk, so that no lapse of a lease makes it begin the same call twice.
 */
export function createRunCall({ calls, leases, runShort, storeLong }: Deps) {
  const underway = new Map<string, { request: string; done: Promise<Outcome> }>();

  async function begin(offer: Offer): Promise<Outcome> {
    const begun = await calls.begin(offer).catch((cause: unknown) => {
      throw unavailable(messageOf(cause), cause);
    });
    if (begun.kind === "answered") return { answer: begun.answer, kind: "replayed" };
    if (begun.kind === "running") throw busy(offer.callId);
    if (begun.kind === "reused") throw reused(offer.callId);
    failpoint("runner.after_begin");
    return await run(offer);
  }

  async function run(offer: Offer): Promise<Outcome> {
    leases.hold(offer.callId);
    try {
      if (offer.job.long) return { answer: await storeLong(offer), kind: "stored" };
      const answer = await runShort(offer);
      return { answer, kind: isSuccess(answer) ? "finished" : "failed" };
    } finally {
      leases.drop(offer.callId);
    }
  }

  const runCall: RunCall = async (offer) => {
    const { callId } = offer;
    const request = requestOf(offer);
    const here = underway.get(callId);
    if (here !== undefined) throw here.request === request ? busy(callId) : reused(callId);
    const done = begin(offer).finally(() => underway.delete(callId));
    underway.set(callId, { request, done });
    return await done;
  };

  /** Resolves when nothing that was begun is open. */
  async function idle(): Promise<void> {
    await Promise.allSettled([...underway.values()].map(({ done }) => done));
  }

  return { runCall, idle };
}
