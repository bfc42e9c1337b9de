import { type Action, chance, step } from "./action.ts";
import type { Bounds, Protocol } from "./protocol.ts";
import { type Job, move, type State, type Worker } from "./state.ts";

const EFFECTS_MAX = 2;

/** The worker, its queue and the runner, which runs an id it remembers only once. */
export function workerActions(protocol: Protocol): Action[] {
  const at = (step: Worker["at"]) => {
    return (s: State): boolean => s.worker.at === step;
  };
  const to = (s: State, next: Worker["at"]): State => ({
    ...s,
    worker: { at: next, id: next === "idle" ? 0 : s.worker.id },
  });
  const withJob = (s: State, id: number, next: Job["at"]): State => ({
    ...s,
    jobs: s.jobs.map((job) => (job.id === id ? { ...job, at: next } : job)),
  });
  const find = (s: State, where: Job["at"]): Job | undefined => s.jobs.find((job) => job.at === where);

  function take(s: State): State {
    const { id } = find(s, "waiting")!;
    return { ...withJob(s, id, "active"), worker: { at: "took", id } };
  }

  function run(s: State): State {
    const { id } = s.worker;
    if (s.runnerIds.includes(id) || s.effects.length >= EFFECTS_MAX) return s;
    const { body } = s.jobs.find((job) => job.id === id)!;
    return {
      ...s,
      effects: s.effects + body,
      runnerIds: protocol.runnerRemembersIds ? [...s.runnerIds, id] : [],
    };
  }

  return [
    step("worker: takes the job", {
      when: (s) => at("idle")(s) && find(s, "waiting") !== undefined,
      does: take,
    }),
    step("worker: reads the record; INJECTED means no POST", {
      when: at("took"),
      does: (s) => to(s, s.record === "INJECTED" ? "marked" : "posting"),
    }),
    step("worker: POSTs, the runner accepts", { when: at("posting"), does: (s) => to(run(s), "posted") }),
    chance("worker: POSTs, the runner accepts, the reply is lost", { when: at("posting"), does: run }),
    step("worker: marks the record INJECTED", {
      when: at("posted"),
      does: (s) => to(move(s, ["SETTLING", "SETTLED", "QUEUED"], "INJECTED"), "marked"),
    }),
    step("worker: completes the job", {
      when: at("marked"),
      does: (s) => to(withJob(s, s.worker.id, "done"), "idle"),
    }),
    step("queue: a stalled job waits again", {
      when: (s) => at("idle")(s) && find(s, "active") !== undefined,
      does: (s) => withJob(s, find(s, "active")!.id, "waiting"),
    }),
    step("queue: a completed job is removed", {
      when: (s) => find(s, "done") !== undefined,
      does: (s) => ({ ...s, jobs: s.jobs.filter((job) => job.at !== "done") }),
    }),
  ];
}

/** An operator, or a bug, removes a job that waits. It counts as a fault, like a kill. */
export function lossActions({ crashes, losesJobs }: Bounds): Action[] {
  if (!losesJobs) return [];
  return [
    chance("queue: a waiting job is lost", {
      when: (s) => s.crashes < crashes && s.jobs.some((job) => job.at === "waiting"),
      does: (s) => ({ ...s, crashes: s.crashes + 1, jobs: s.jobs.filter((job) => job.at !== "waiting") }),
    }),
  ];
}
