import type { ChildProcess } from "node:child_process";

const running = new Map<ChildProcess, NodeJS.Signals>();
let watching = false;

/**
 * The child gets this signal when this process exits, so that no failed test and no crashed demo leaves processes behind.
 * SIGTERM is for one that has children of its own to end.
 */
export function endWithParent(child: ChildProcess, signal: NodeJS.Signals = "SIGKILL"): void {
  running.set(child, signal);
  child.once("close", () => running.delete(child));
  if (watching) return;
  watching = true;
  process.on("exit", () => {
    for (const [each, last] of running) each.kill(last);
  });
}
