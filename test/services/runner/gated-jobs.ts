import { type Call, createRouter } from "../../../services/runner/runner.ts";
import type { TestRunner } from "../../fixtures/runners.ts";

/** A gate at which a handler waits until the test opens it, and the count of the handler's runs. */
export function gate() {
  let open: () => void = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { runs: 0, open, opened };
}

/** Short job 1, which runs until the gate opens. */
export function gatedShort() {
  const at = gate();
  const jobs = createRouter().job(1, {
    name: "gated",
    async handler() {
      at.runs += 1;
      await at.opened;
      return { body: `run ${at.runs}` };
    },
  });
  return { at, jobs };
}

/** Long job 1, which runs until the gate opens or the runner stops. */
export function gatedLong() {
  const at = gate();
  const jobs = longJob(async ({ signal }) => {
    at.runs += 1;
    const stopped = new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    await Promise.race([at.opened, stopped]);
  });
  return { at, jobs };
}

/** Short job 1 and long job 2. Each runs until its own gate opens. */
export function gatedBoth() {
  const { at: short, jobs } = gatedShort();
  const long = gate();
  jobs.job(2, {
    name: "long",
    long: true,
    async handler() {
      long.runs += 1;
      await long.opened;
    },
  });
  return { short, long, jobs };
}

/** A long job 1 with this handler. */
export function longJob(handler: (call: Call<undefined, Readonly<Record<string, string>>>) => Promise<void>) {
  return createRouter().job(1, { name: "long", long: true, handler });
}

/** Jobs 1 and 2, which together count their runs and answer with the count. */
export function counting() {
  const seen = { runs: 0 };
  const handler = () => ({ status: 201, contentType: "text/x-count", body: `run ${++seen.runs}` });
  const jobs = createRouter().job(1, { name: "count", handler }).job(2, { name: "count again", handler });
  return { seen, jobs };
}

/** The state of the call as GET /calls/{id} reports it. */
export async function stateOf({ get }: TestRunner, id: string): Promise<unknown> {
  return (await get(`/calls/${id}`)).json()["state"];
}

/** Whether the runner has logged this event, for one call or for any. */
export function hasLogged({ log }: TestRunner, event: string, callId?: string): boolean {
  return log.events.some(
    (line) => line.event === event && (callId === undefined || line.fields["callId"] === callId),
  );
}
