import { messageOf, toAppError } from "../../shared/errors/app-error.ts";
import { failpoint } from "../../shared/lifecycle/failpoint.ts";
import { type Forget, toFailure } from "./forget.ts";
import { type LongStore, storedAnswer } from "./long-store.ts";
import type { Offer } from "./offer.ts";
import { busy, unavailable } from "./refusals.ts";
import type { HttpAnswer } from "./router.ts";

type Deps = {
  longStore: LongStore;
  forget: Forget;
  /** A long call waits to be taken. */
  wake: () => void;
};

/** Puts a begun long call into the store, whole and on disk, once its input has proved to be what the job takes. */
export function createStoreLong({ longStore, forget, wake }: Deps) {
  async function store(offer: Offer, answer: HttpAnswer): Promise<boolean> {
    offer.job.prepare(offer);
    try {
      return await longStore.store(offer, answer);
    } catch (cause) {
      throw unavailable(messageOf(cause), cause);
    }
  }

  return async function storeLong(offer: Offer): Promise<HttpAnswer> {
    const answer = storedAnswer(offer.callId);
    const stored = await store(offer, answer).catch(async (thrown: unknown) => {
      const error = toAppError(thrown);
      await forget(offer.callId, toFailure(error));
      throw error;
    });
    if (!stored) throw busy(offer.callId);
    failpoint("runner.after_stored");
    wake();
    return answer;
  };
}
