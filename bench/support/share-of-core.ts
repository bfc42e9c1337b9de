import { Worker } from "node:worker_threads";

const PERIOD_MS = 10;

/**
 * Script of a worker thread that stops and continues another process in turn. It is plain JavaScript, because Node does not
 * compile the text of a worker from TypeScript.
 */
const STOP_AND_GO = `
  const { workerData: { pid, runMs, stopMs } } = require("node:worker_threads");
  const asleep = new Int32Array(new SharedArrayBuffer(4));
  for (;;) {
    process.kill(pid, "SIGCONT");
    Atomics.wait(asleep, 0, 0, runMs);
    process.kill(pid, "SIGSTOP");
    Atomics.wait(asleep, 0, 0, stopMs);
  }
`;

/**
 * Limits each process to this fraction of a core while `work` runs, by stopping it for a part of each period. These processes
 * are then the bottleneck even on a machine with few cores.
 */
export async function withShareOfCore<Result>(
  pids: readonly number[],
  share: number,
  work: () => Promise<Result>,
): Promise<Result> {
  const workers = pids.map((pid) => {
    const runMs = PERIOD_MS * share;
    return new Worker(STOP_AND_GO, { eval: true, workerData: { pid, runMs, stopMs: PERIOD_MS - runMs } });
  });
  try {
    return await work();
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()));
    for (const pid of pids) process.kill(pid, "SIGCONT");
  }
}
