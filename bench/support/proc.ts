import { readFileSync } from "node:fs";

const TICKS_PER_SEC = 100;

/** Returns the CPU time of a process in milliseconds, in user and kernel mode. Returns NaN if the system has no /proc. */
export function cpuMsOf(pid: number | undefined): number {
  const stat = read(pid, "stat");
  const fields = stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ticks = Number(fields?.[11]) + Number(fields?.[12]);
  return (ticks * 1000) / TICKS_PER_SEC;
}

/** Returns the resident memory of a process in bytes. Returns NaN if the system has no /proc. */
export function rssBytesOf(pid: number | undefined): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB/m.exec(read(pid, "status") ?? "")?.[1];
  return kilobytes === undefined ? Number.NaN : Number(kilobytes) * 1024;
}

/** Returns the peak of the resident memory of a process in bytes. Returns NaN if the system has no /proc. */
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
