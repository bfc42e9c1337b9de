import { readFileSync } from "node:fs";

/** Returns whether the process still runs. A zombie process has ended; only its exit code has not been read. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  return stateOf(pid) !== "Z";
}

/** Returns the process state in proc(5). Returns undefined on a system without it, or if the process has ended. */
function stateOf(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1)?.[0];
  } catch {
    return undefined;
  }
}
