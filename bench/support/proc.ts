import { readFileSync } from "node:fs";

const TICKS_PER_SEC = 100;

/** Returns the milliseconds of CPU time that a process has used, in user and kernel mode; NaN without /proc. */
export function cpuMsOf(pid: number | undefined): number {
  const stat = read(pid, "stat");
  const fields = stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ticks = Number(fields?.[11]) + Number(fields?.[12]);
  return (ticks * 1000) / TICKS_PER_SEC;
}

/** Returns the bytes of memory of a process; NaN without /proc. */
export function rssBytesOf(pid: number | undefined): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB/m.exec(read(pid, "status") ?? "")?.[1];
  return kilobytes === undefined ? Number.NaN : Number(kilobytes) * 1024;
}

/** Returns the peak memory of a process in bytes; NaN without /proc. */
export function peakRssBytesOf(pid: number | undefined): number {
  const kilobytes = /^VmHWM:\s+(\d+) kB/m.exec(read(pid, "status") ?? "")?.[1];
  return kilobytes === undefined ? Number.NaN : Number(kilobytes) * 1024;
}

function read(pid: number | undefined, file: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return undefined;
  }
}
