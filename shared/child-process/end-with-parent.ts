import type { ChildProcess } from "node:child_process";

const running = new Set<ChildProcess>();
let watching = false;

/** The child is killed when this process exits, so that no failed test and no crashed demo leaves processes behind. */
export function endWithParent(child: ChildProcess): void {
  running.add(child);
  child.once("close", () => running.delete(child));
  if (watching) return;
  watching = true;
  process.on("exit", () => {
    for (const each of running) each.kill("SIGKILL");
  });
}
