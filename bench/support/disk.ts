import { open } from "node:fs/promises";
import { join } from "node:path";
import { quantile } from "./statistics.ts";

const WRITES = 300;
const BYTES = 1024;

export type DiskFigures = { p50Ms: number; p99Ms: number };

/** Measures a small write with fdatasync on this directory's disk, as Redis does it for its append-only file. */
export async function measureFsync(dir: string): Promise<DiskFigures> {
  const file = await open(join(dir, "fsync"), "a");
  const took: number[] = [];
  try {
    for (let i = 0; i < WRITES; i++) {
      const began = performance.now();
      await file.write(Buffer.alloc(BYTES));
      await file.datasync();
      took.push(performance.now() - began);
    }
  } finally {
    await file.close();
  }
  return { p50Ms: quantile(took, 0.5), p99Ms: quantile(took, 0.99) };
}
