import { beforeAll } from "vitest";
import { type ComposedOptions, createRouter } from "../../../../../services/runner/runner.ts";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { type RunnersFixture, type TestRunner, useRunners } from "../../../../fixtures/runners.ts";
import { gate } from "../../gated-jobs.ts";

export type FailingJob = {
  runners: RunnersFixture;
  runner: TestRunner;
  /** Of the long job 1: what its runs wait for or fail with. */
  dependency: { isUp: boolean; at: ReturnType<typeof gate> };
  /** What its runs saw. */
  seen: string[];
  /** Another runner with the same jobs. */
  another(options: Partial<ComposedOptions>): Promise<TestRunner>;
  look(id: string): Promise<Record<string, unknown>>;
  until(id: string, state: string): Promise<unknown>;
  /** A long call whose attempts are spent. */
  fail(id: string): Promise<void>;
};

/** A runner whose long job 1 fails for as long as its dependency is down; job 2 is short and answers 503. */
export function useFailingJob(runners = useRunners()): FailingJob {
  const dependency = { isUp: false, at: gate() };
  const seen: string[] = [];
  const jobs = createRouter()
    .job(1, {
      name: "long",
      long: true,
      async handler({ callId, body, metadata }) {
        seen.push(`${callId} ${body} ${metadata["X-WEBHOOK-PATH"]}`);
        if (!dependency.isUp) throw new Error("the dependency is down");
        await dependency.at.opened;
      },
    })
    .job(2, { name: "short", handler: () => ({ status: 503 }) });

  const used = {
    runners,
    dependency,
    seen,
    another: (options) =>
      runners.start({ jobs, longAttempts: 2, longBackoff: { baseMs: 1, capMs: 1 }, ...options }),
    look: async (id) => (await used.runner.get(`/calls/${id}`)).json(),
    until: (id, state) =>
      eventually(`${id} is ${state}`, async () => (await used.look(id))["state"] === state),
    async fail(id) {
      dependency.isUp = false;
      await used.runner.offer(id, { body: "the input", headers: { "X-WEBHOOK-PATH": "/a" } });
      await used.until(id, "failed");
    },
  } as FailingJob;
  beforeAll(async () => {
    used.runner = await used.another({});
  });
  return used;
}
