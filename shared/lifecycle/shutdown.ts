import { messageOf } from "../errors/app-error.ts";
import type { Logger } from "../log/logger.ts";

/** What was started, and how each of it ends: last registered, first closed. */
export class Shutdown {
  readonly #steps: { name: string; close: () => Promise<unknown> | unknown }[] = [];

  defer(name: string, close: () => Promise<unknown> | unknown): void {
    this.#steps.push({ name, close });
  }

  /** Closes everything, whatever fails on the way; true when all of it closed. */
  async run(log: Logger): Promise<boolean> {
    let clean = true;
    for (const { name, close } of this.#steps.splice(0).reverse()) {
      try {
        await close();
      } catch (error) {
        clean = false;
        log.error("shutdown.step_failed", { step: name, reason: messageOf(error) });
      }
    }
    return clean;
  }
}
