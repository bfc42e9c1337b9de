import { delay, systemClock } from "../time/clock.ts";
import { builtEntry, type Part, type ProcessOptions, startPart } from "./process.ts";

const DEADLINE_MS = 30_000;

/** Resolves once the part's readiness probe answers 200: it listens before Redis is there. Rejects with its newest lines. */
export async function untilReady(part: Part): Promise<void> {
  const url = `http://${part.opsAddress ?? part.address}/readyz`;
  const deadline = systemClock() + DEADLINE_MS;
  let ended = false;
  void part.process.exit.then(() => {
    ended = true;
  });
  while (!(await isOk(url))) {
    if (ended) throw new Error(`${part.process.name} ended before it was ready\n${part.process.tail()}`);
    if (systemClock() > deadline)
      throw new Error(`${part.process.name} is not ready\n${part.process.tail()}`);
    await delay(25);
  }
}

async function isOk(url: string): Promise<boolean> {
  try {
    const answer = await fetch(url);
    await answer.body?.cancel();
    return answer.ok;
  } catch {
    return false;
  }
}

type Options = Pick<ProcessOptions, "env" | "onLine"> & { configDir: string };

/** Runs the pricing engine with its x402 settlement extension, out of reach of the terminal's Ctrl-C. */
export function startPricing({ configDir, ...options }: Options): Promise<Part> {
  const entry = builtEntry("services/pricing/main-with-x402.js");
  return startPart({ name: "pricing", entry, args: [configDir], detached: true, ...options });
}
