import { type Action, chance, step } from "./action.ts";
import type { Bounds, Protocol } from "./protocol.ts";
import { IDLE_WORKER, type Job, move, type State, type Worker } from "./state.ts";

const EFFECTS_MAX = 2;

/** Actions of the worker, its queue and the runner. The runner runs a remembered id only once. */
export function workerActions(protocol: Protocol): Action[] {
  const at = (step: Worker["at"]) => {
    return (s: State): boolean => s.worker.at === step;
  };
  const to = (s: State, next: Worker["at"]): State => ({
    ...s,
    worker: next === "idle" ? IDLE_WORKER : { ...s.worker, at: next },
  });
  const withJob = (s: State, id: number, next: Job["at"]): State => ({
    ...s,
    jobs: s.jobs.map((job) => (job.id === id ? { ...job, at: next } : job)),
  });
  const find = (s: State, where: Job["at"]): Job | undefined => s.jobs.find((job) => job.at === where);

  /** Takes a call, and reads its record in the same step. */
  function take(s: State): State {
    const { id, body } = find(s, "waiting")!;
    return {
      ...withJob(s, id, "active"),
      worker: { at: s.record === "INJECTED" ? "took-ended" : "took", id, body },
    };
  }

  /** Removes the job, unless another worker took it back meanwhile. */
  const removed = (s: State): State => ({
    ...s,
    jobs: s.jobs.filter((job) => job.id !== s.worker.id || job.at !== "active"),
  });

  function run(s: State): State {
    const { id, body } = s.worker;
    if (s.runnerIds.includes(id) || s.effects.length >= EFFECTS_MAX) return s;
    return {
      ...s,
      effects: s.effects + body,
      runnerIds: protocol.runnerRemembersIds ? [...s.runnerIds, id] : [],
    };
  }

  return [
    step("worker: takes the job and reads its record", {
      when: (s) => at("idle")(s) && find(s, "waiting") !== undefined,
      does: take,
    }),
    step("worker: removes the job of a record that is INJECTED", {
      when: at("took-ended"),
      does: (s) => to(removed(s), "idle"),
    }),
    step("worker: POSTs, the runner accepts", { when: at("took"), does: (s) => to(run(s), "posted") }),
    chance("worker: POSTs, the runner accepts, the reply is lost", { when: at("took"), does: run }),
    step("worker: marks the record INJECTED and removes the job", {
      when: at("posted"),
      does: (s) => to(removed(move(s, ["SETTLING", "QUEUED"], "INJECTED")), "idle"),
    }),
    step("queue: the job of a dead worker waits again", {
      when: (s) => at("idle")(s) && find(s, "active") !== undefined,
      does: (s) => withJob(s, find(s, "active")!.id, "waiting"),
    }),
    chance("queue: the job of a worker that stands still waits again", {
      when: (s) => !at("idle")(s) && find(s, "active") !== undefined,
      does: (s) => withJob(s, find(s, "active")!.id, "waiting"),
    }),
  ];
}

/** Actions of an operator or a bug that removes a waiting job. Each counts as a fault, like a kill. */
export function lossActions({ crashes, losesJobs }: Bounds): Action[] {
  if (!losesJobs) return [];
  return [
    chance("queue: a waiting job is lost", {
      when: (s) => s.crashes < crashes && s.jobs.some((job) => job.at === "waiting"),
      does: (s) => ({ ...s, crashes: s.crashes + 1, jobs: s.jobs.filter((job) => job.at !== "waiting") }),
    }),
  ];
}
