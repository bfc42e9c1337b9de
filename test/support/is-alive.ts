import { readFileSync } from "node:fs";

/** Whether the process still runs. A zombie has ended: only its exit code waits to be asked for. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  return stateOf(pid) !== "Z";
}

/** The state in proc(5); undefined on a system without it, or if the process is gone. */
function stateOf(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1)?.[0];
  } catch {
    return undefined;
  }
}
